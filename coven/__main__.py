"""`python -m coven` is the command `coven`."""

from coven.cli import main

main()
