"""The progress bar: on a terminal, and nowhere else."""

from __future__ import annotations

import io
import os
import pty
import sys

from coven.cli._progress import progress_bar


def test_it_is_drawn_on_a_terminal(monkeypatch):
    ours, theirs = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with progress_bar("exporting chat", 10) as progress:
            progress(5)
            progress(10)
        terminal.flush()
        assert b"exporting chat" in os.read(ours, 65536)
    os.close(ours)


def test_it_is_silent_elsewhere(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar("exporting chat", 10) as progress:
        progress(10)
    assert stream.getvalue() == ""
