"""How the branches meet: the configuration, its check, and the router."""
