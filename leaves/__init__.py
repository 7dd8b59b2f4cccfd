"""Where the outside begins: one file an integration, its SDK imported there only."""
