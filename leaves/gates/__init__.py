"""Gates for circles that are made in Python: `echo`, and `read`, `write` and `fetch` bound to what they may reach."""

from leaves.gates.echo import echo
from leaves.gates.fetch import fetch
from leaves.gates.files import read, write

__all__ = ["echo", "fetch", "read", "write"]
