"""Substrates: what casts spells. Nothing is imported here, so that the sandbox's runner starts in milliseconds."""
