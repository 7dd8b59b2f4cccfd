"""Sandboxes for code."""
