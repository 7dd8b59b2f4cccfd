"""The entry point, and the one place where an error becomes a message and an exit code.

Exit codes: 0 all is well; 1 something failed while it ran; 2 wrong usage, or errors in coven.yaml; 130 stopped at once.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

from coven.exits import AT_ONCE


def main() -> None:
    """Run the command that `sys.argv` names."""
    try:
        _run()
    except KeyboardInterrupt:  # also while the libraries are still being imported
        sys.exit(AT_ONCE)


def _run() -> None:
    _fill_closed_streams()
    _spare_rich()
    from coven.cli._app import app
    from coven.logs import configure_logs

    configure_logs()

    try:
        app()
    except BrokenPipeError:
        _forget_output()
        sys.exit(0)
    except Exception as error:  # the boundary: people get a message with the cure, never a traceback
        if os.environ.get("COVEN_DEBUG"):
            raise
        from coven.cli._errors import explain
        from coven.terminal import tell

        message, code = explain(error)
        tell(f"coven: {message}")
        sys.exit(code)


def _fill_closed_streams() -> None:
    """Put the null device where standard streams are closed, so that no socket or file of ours gets their numbers."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one


def _spare_rich() -> None:
    """Import structlog without rich, which it would load for its own tracebacks: that takes a quarter of a second."""
    modules: dict[str, Any] = sys.modules
    if "structlog" not in modules and "rich" not in modules:
        modules["rich"] = None
        try:
            import_module("structlog")
        finally:
            del modules["rich"]


def _forget_output() -> None:
    """Nobody reads our output any more: let the interpreter's last flush go nowhere instead of complaining."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(nowhere, stream.fileno())
