"""How to run it: the host and the command line."""
