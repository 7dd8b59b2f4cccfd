"""QuickJS: the engine of the medium `javascript`."""
