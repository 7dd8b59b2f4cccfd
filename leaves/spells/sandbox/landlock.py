"""Landlock: a process gives up, for itself and all that it starts, every file and signal that was not granted.

Linux 5.13 and newer; what a kernel of a lower ABI cannot restrict, it leaves as it was. No kernel restricts by it what
is not content: looking whether a file exists, its size, mode and times, and changing those of a file that one owns;
nor UDP and sockets with a path. Runs in the sandbox's runner, so it needs nothing but the standard library.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _RULE_PATH_BENEATH = 1, 1
_UNSUPPORTED = 0

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_REG, MAKE_SYM = 1 << 4, 1 << 5, 1 << 7, 1 << 8, 1 << 12
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15

READ = READ_FILE | READ_DIR
RUN = READ | EXECUTE
WORK = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SYM | REFER | TRUNCATE
"""Everything but running what lies there, and but making devices, sockets and pipes."""
_ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

_ALL_SINCE = {1: (1 << 13) - 1, 2: REFER, 3: TRUNCATE, 5: IOCTL_DEV}
_TCP = 0b11  # bind and connect
_TCP_SINCE = 4
_SCOPES = 0b11  # abstract sockets and signals
_SCOPES_SINCE = 6


class _RulesetAttributes(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32)]


def landlock_abi() -> int:
    """Which version of Landlock this kernel enforces; 0 without it."""
    if not sys.platform.startswith("linux"):
        return _UNSUPPORTED
    try:
        return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))
    except OSError:
        return _UNSUPPORTED


def confine(root: int, granted: Iterable[tuple[str, int]], *, network: bool) -> int:
    """Confine this process for ever to working beneath the folder `root` and to what is granted by path.

    Without `network` it can neither connect nor listen by TCP (ABI 4). It can signal no process but those that it
    starts (ABI 6). Gives the ABI, 0 when the kernel has none and nothing was done. The process must have given up new
    privileges before. Raises `OSError` if the kernel refuses.
    """
    abi = landlock_abi()
    if abi == _UNSUPPORTED:
        return abi
    handled = 0
    for since, rights in _ALL_SINCE.items():
        handled |= rights if abi >= since else 0
    attributes = _RulesetAttributes(
        handled, 0 if network or abi < _TCP_SINCE else _TCP, _SCOPES if abi >= _SCOPES_SINCE else 0
    )
    size = 8 if abi < _TCP_SINCE else 16 if abi < _SCOPES_SINCE else 24
    ruleset = _call(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), ctypes.c_uint32(0))
    try:
        _grant(ruleset, root, WORK & handled)
        for path, rights in granted:
            _grant_path(ruleset, path, rights & handled)
        _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)
    return abi


def _grant_path(ruleset: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, getattr(os, "O_PATH", 0) | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # this system has no such folder, so nobody misses it
    try:
        _grant(ruleset, opened, rights if stat.S_ISDIR(os.fstat(opened).st_mode) else rights & _ON_FILES)
    finally:
        os.close(opened)


def _grant(ruleset: int, opened: int, rights: int) -> None:
    rule = _PathBeneath(rights, opened)
    _call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_RULE_PATH_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0))


def _call(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
