"""Where the outside begins: one file or folder an integration, its SDK imported there only."""
