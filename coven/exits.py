"""The exit codes of a command. Nothing is imported here: they are needed also when an import is cut off."""

FAILED, WRONG, AT_ONCE = 1, 2, 130
"""Something failed while it ran; wrong usage, or errors in coven.yaml; stopped at once."""
