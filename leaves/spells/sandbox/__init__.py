"""What keeps a spell inside its folder. Nothing is imported here, so that the runner starts in milliseconds."""
