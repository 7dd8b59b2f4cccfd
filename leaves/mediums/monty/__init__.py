"""Monty: the engine of the medium `python`."""
