"""Named fault points: the places where a crash test kills a process.

Set `COVEN_FAULT=<point>[:<occurrence>]` and the process kills itself (SIGKILL) when it reaches that point for the
n-th time, 1 by default; with `COVEN_FAULT_PID=<pid>` it kills that process once, for instance the server, and goes
on. Set `COVEN_FAULT_TRACE=<file>` and every point reached is appended to that file, one a line. Without any of them
a point costs one comparison.
"""

from __future__ import annotations

import os
import signal

_target, _, _nth = os.environ.get("COVEN_FAULT", "").partition(":")
_remaining = int(_nth or 1)
_victim = int(os.environ.get("COVEN_FAULT_PID", "0"))
_trace = os.environ.get("COVEN_FAULT_TRACE", "")
ARMED = bool(_target or _trace)


def fault_point(*parts: str) -> None:
    """Mark a commit boundary, e.g. `fault_point("agents", "append", "AgentToolCall", "before")`."""
    global _remaining
    if not ARMED:
        return
    name = ".".join(parts)
    if _trace:
        with open(_trace, "a", encoding="utf-8") as file:
            file.write(f"{name}\n")
    if name == _target:
        _remaining -= 1
        if _remaining == 0:
            os.kill(_victim or os.getpid(), signal.SIGKILL)
