"""What of a command line may run: one allowed program, by its bare name, with arguments that stay in the workspace.

Two independent walls keep a program inside: this one, which reads the words, on every system; and on Linux the
sandbox, which restricts what the process can do whatever its words were. A program that runs code of its own (an
interpreter, `find -exec`, `make`) is behind the second one only.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Collection, Iterator
from typing import NamedTuple

from branches.spellcasting import SpellFailed

_NAME = r"\w.+~%*?)\]}\-"
_ABSOLUTE = re.compile(rf"(?:^|[^{_NAME}/])/")
_ATTACHED = re.compile(r"^-\w+/")
_ATTACHED_UP = re.compile(r"^-\w+?(\.\.(?:/.*)?)$", re.DOTALL)
_PIECES = re.compile(rf"[^{_NAME}/]+")
_URL = re.compile(r"https?://[^/]")


class Command(NamedTuple):
    """A program's file and its arguments, the first being its name."""

    program: str
    argv: tuple[str, ...]


def parse_command(
    cmd: str, *, allow: Collection[str], deny: Collection[str], path: str, root: str, network: bool
) -> Command:
    """Split a command line into words and see that every word may pass.

    `allow` are the programs' bare names, found on `path`; `deny` are texts that may stand nowhere in the line; `root`
    is the workspace. With `network` an argument may be an http address. Touches the disk, to follow links. Raises
    `SpellFailed` with `denied`, `bad_arguments` or `unavailable`, and a message that says what to do instead.
    """
    for text in ("\0", *deny):
        if text in cmd:
            raise SpellFailed(
                "denied",
                f"{text!r} is denied. There is no shell here: a call runs one program with its arguments, so there "
                "is nothing to chain, pipe, redirect or substitute. Make several calls, and write files with "
                "fs.write_text",
            )
    try:
        argv = shlex.split(cmd)
    except ValueError as error:
        raise SpellFailed("bad_arguments", f"the command cannot be split into words: {error}") from None
    if not argv:
        raise SpellFailed("bad_arguments", "the command is empty")
    name = argv[0]
    if name not in allow:
        allowed = ", ".join(sorted(allow)) or "none"
        raise SpellFailed("denied", f"{name[:80]!r} is not an allowed program; allowed are {allowed}")
    root = os.path.realpath(root)
    for argument in argv[1:]:
        if network and _URL.match(argument):
            continue
        _check(argument, root)
    program = shutil.which(name, path=path)
    if program is None:
        raise SpellFailed("unavailable", f"{name} is allowed, but not installed in {path}")
    return Command(program, tuple(argv))


def _check(argument: str, root: str) -> None:
    """Raise `SpellFailed` if any reading of the argument as a path leads out of the workspace."""
    shown = argument if len(argument) <= 80 else argument[:80] + "…"
    if _ABSOLUTE.search(argument):
        raise SpellFailed("denied", f"{shown!r} is denied: paths are relative to the workspace, and none begins with /")
    if _ATTACHED.match(argument):
        raise SpellFailed("denied", f"{shown!r} is denied: set the path apart from its option, e.g. -f some/path")
    if any(_leaves(candidate, root) for candidate in _candidates(argument)):
        raise SpellFailed("denied", f"{shown!r} is denied: it leads out of the workspace")


def _candidates(argument: str) -> Iterator[str]:
    """All that could be a path in it: the whole, the parts between signs, and what is attached to an option."""
    yield argument
    attached = _ATTACHED_UP.match(argument)
    if attached:
        yield attached[1]
    for piece in _PIECES.split(argument):
        if piece:
            yield piece
            if piece.startswith("-"):
                yield piece[2:]


def _leaves(path: str, root: str) -> bool:
    real = os.path.realpath(os.path.join(root, path))
    return real != root and not real.startswith(root.rstrip("/") + "/")
