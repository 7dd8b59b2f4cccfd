"""Errors of code that is not ours: what they are, and in which file and line of its author they were raised."""

from __future__ import annotations

import site
import sysconfig
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Final

_ROOT: Final = Path(__file__).resolve().parent.parent
_ROOMS: Final = tuple(
    f"{_ROOT / room}/" for room in ("journals", "policies", "branches", "covenants", "leaves", "coven")
)
_STANDARD: Final = {
    path for name in ("stdlib", "platstdlib", "purelib", "platlib") if (path := sysconfig.get_path(name))
}
_INSTALLED: Final = tuple(f"{path}/" for path in {*_STANDARD, *site.getsitepackages(), site.getusersitepackages()})


def place_of(error: BaseException) -> str | None:
    """`release.py, line 85`: the innermost line outside of Coven and of what is installed; None if there is none."""
    lines: list[tuple[str, int]] = []
    traceback = error.__traceback__
    while traceback is not None:
        lines.append((traceback.tb_frame.f_code.co_filename, traceback.tb_lineno))
        traceback = traceback.tb_next
    return _innermost(reversed(lines))


def place_in(frame: FrameType | None, around: Container[FrameType] = ()) -> str | None:
    """The same for what is being run: the innermost such line of this frame and those that called it.

    Those that are `around` do not count: a script that runs a loop does nothing of what goes on in it.
    """
    return _innermost((each.f_code.co_filename, each.f_lineno) for each in with_callers(frame) if each not in around)


def with_callers(frame: FrameType | None) -> Iterator[FrameType]:
    """This frame, and those that called it, innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _innermost(lines: Iterable[tuple[str, int]]) -> str | None:
    """The first line of these that is code of others, and not installed."""
    for file, line in lines:
        if not file.startswith((*_ROOMS, *_INSTALLED, "<")):
            return f"{Path(file).name}, line {line}"
    return None


def kind_of(error: BaseException) -> str:
    """Its type and its place, for journals, models and chats: its words were chosen for nobody, and may hold a key."""
    kind, place = type(error).__name__, place_of(error)
    return f"{kind} ({place}); the log says more" if place else f"{kind}; the log says more"


def told(error: BaseException) -> str:
    """An error on one line, for the log, with its type and its place: `KeyError: 'room' (pager.py, line 12)`."""
    place = place_of(error)
    said = " ".join(named(error).split())
    return f"{said} ({place})" if place else said


def named(error: BaseException) -> str:
    """An error with its type: `KeyError: 'room'`. It is the code of others, and may raise when it is shown."""
    kind = type(error).__name__
    try:
        text = str(error)
    except Exception as worse:  # noqa: BLE001 - the code of others still
        return f"{kind}, which raises {type(worse).__name__} when it is shown"
    return f"{kind}: {text}" if text else kind
