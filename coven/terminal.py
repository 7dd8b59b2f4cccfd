"""What is said to whoever started us, as wide as their terminal."""

from __future__ import annotations

import os
import sys

from branches.wrapped import wrapped


def tell(text: str) -> None:
    """Say something beside the conversation: on a terminal in lines that fit, and without what steers it."""
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison] - closed at the start; `print` would take stdout
        return
    if (columns := _columns()) is not None:
        from leaves.chats._terminal import visible

        text = wrapped(visible(text), columns)
    print(text, file=sys.stderr, flush=True)


def _columns() -> int | None:
    """How wide the terminal is that standard error is; None if it is something else."""
    if not sys.stderr.isatty():
        return None
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or None
    except (OSError, ValueError):
        return None
