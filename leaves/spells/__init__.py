"""Substrates: what spells touch."""
