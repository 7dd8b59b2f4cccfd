"""A progress bar on standard error, where a person looks at it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def progress_bar(what: str, total: int) -> Generator[Callable[[int], None]]:
    """Gives the function that is told how much of `total` is done. Without a terminal it does nothing."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)
