"""Benchmarks: everything is compared side by side in one run on one server, and reported as a ratio."""
