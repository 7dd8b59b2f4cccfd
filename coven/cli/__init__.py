"""The command line: `coven --help`."""

from coven.cli._main import main

__all__ = ["main"]
