"""`python -m coven`, the same as the command `coven`."""

import sys
from pathlib import Path


def _leave_workspace() -> None:
    """Take the folder that we were started in off the import path, where `-m` has put it.

    A user's `leaves.py` must not pass for our `leaves`. Our own checkout may stay, when that is where we run from.
    """
    here, home = Path.cwd().resolve(), Path(__file__).resolve().parent.parent
    if sys.path and here != home and Path(sys.path[0] or ".").resolve() == here:
        del sys.path[0]


_leave_workspace()

if __name__ == "__main__":
    from coven.cli import main

    main()
