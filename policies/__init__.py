"""What decides, and how it survives a crash: the durable-execution engine."""
