"""Opening files beneath a folder, so that no path, no link and no race leads out of it.

Linux resolves a path beneath a folder in one call, `openat2`. Where that is missing (macOS, BSD, an old or filtered
kernel) each component is opened by itself, relative to the one before and without following links; links are then
read and followed by us. Either way nothing is checked first and opened later: what was opened is what was checked.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections import deque
from contextlib import suppress
from functools import cache

MAX_LINKS = 40
MAX_DEPTH = 128
FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)

_SYS_OPENAT2 = 437
_RESOLVE_NO_MAGICLINKS, _RESOLVE_BENEATH = 0x02, 0x08
_RACES = 1000
_LINK_ERRORS = {errno.ELOOP, errno.ENOTDIR, errno.EMLINK}


class PathEscapes(Exception):
    """The path is not beneath the folder: absolute, or `..` or a link leads out of it."""


class _OpenHow(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


def open_beneath(root: int, path: str, flags: int) -> int:
    """A file descriptor of `path`, opened below the folder descriptor `root`; the caller closes it.

    Raises `PathEscapes`, and `OSError` for everything else that can be wrong with a path. Links that stay inside are
    followed; an absolute one never is.
    """
    if path.startswith("/"):
        raise PathEscapes("it is absolute; give it relative to the workspace")
    if "\0" in path:
        raise PathEscapes("it contains NUL")
    if has_openat2():
        return _open_at_once(root, path, flags)
    return open_stepwise(root, path, flags)


@cache
def has_openat2() -> bool:
    """Whether this kernel has `openat2` and lets us call it."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        os.close(_openat2(-100, b".", FOLDER | os.O_CLOEXEC, 0))  # -100 is AT_FDCWD
    except OSError:
        return False
    return True


def open_stepwise(root: int, path: str, flags: int) -> int:
    """`open_beneath` by means that every Unix has: one component after the other, links read and followed by hand."""
    folders = [os.dup(root)]
    left = deque(path.split("/"))
    links = 0
    try:
        while left:
            name = left.popleft()
            if name in ("", "."):
                continue
            if name == "..":
                if len(folders) == 1:
                    raise PathEscapes("`..` leads out of the workspace")
                os.close(folders.pop())
                continue
            try:
                opened = os.open(name, (FOLDER if left else flags) | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folders[-1])
            except OSError as error:
                target = _link_target(name, folders[-1], error)
                links += 1
                if links > MAX_LINKS:
                    raise PathEscapes("it goes through too many links") from None
                left.extendleft(reversed(target.split("/")))
                continue
            if not left:
                return opened
            folders.append(opened)
            if len(folders) > MAX_DEPTH:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        return os.open(".", flags | os.O_CLOEXEC, dir_fd=folders[-1])
    finally:
        for folder in folders:
            os.close(folder)


def make_folders(root: int, path: str) -> int:
    """A descriptor of the folder `path` below `root`, made with all that is missing on the way. Raises the same."""
    folder = open_beneath(root, ".", FOLDER)
    try:
        names = [name for name in path.split("/") if name not in ("", ".")]
        for number, name in enumerate(names, 1):
            prefix = "/".join(names[:number])
            try:
                deeper = open_beneath(root, prefix, FOLDER)
            except FileNotFoundError:
                with suppress(FileExistsError):  # somebody was faster, or a link leads nowhere: opening it tells
                    os.mkdir(name, dir_fd=folder)
                deeper = open_beneath(root, prefix, FOLDER)
            os.close(folder)
            folder = deeper
    except BaseException:
        os.close(folder)
        raise
    return folder


def _link_target(name: str, folder: int, error: OSError) -> str:
    """Where the link of this name leads. Raises the error that opening it gave if it is no link."""
    if error.errno not in _LINK_ERRORS:
        raise error
    try:
        target = os.readlink(name, dir_fd=folder)
    except OSError:
        raise error from None
    if target.startswith("/"):
        raise PathEscapes("a link on the way is absolute; only links that stay in the workspace are followed")
    return target


def _open_at_once(root: int, path: str, flags: int) -> int:
    for _ in range(_RACES):
        try:
            return _openat2(root, os.fsencode(path), flags | os.O_CLOEXEC, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
        except OSError as error:
            if error.errno == errno.EXDEV:
                raise PathEscapes("`..` or a link leads out of the workspace") from None
            if error.errno == errno.ELOOP:
                raise PathEscapes("it goes through too many links, or through one that only the kernel knows") from None
            if error.errno not in (errno.EAGAIN, errno.EINTR):  # EAGAIN: something was renamed while it looked
                raise
    raise OSError(errno.EAGAIN, "folders on the way are being renamed all the time")


def _openat2(folder: int, path: bytes, flags: int, resolve: int) -> int:
    how = _OpenHow(flags, 0, resolve)
    libc = _libc()
    opened = libc.syscall(
        ctypes.c_long(_SYS_OPENAT2), ctypes.c_int(folder), path, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))
    )
    if opened < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return opened


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
