"""The coven's folder: who can read it, what it is on, how much room there is."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from journals._doctor._finding import Finding, ok, problem, warning
from journals._server._address import ADDRESS_FILE
from journals._server._config import RESERVE_BYTES, store_bytes
from journals._server._folder import CONFIG_FILE

_AMPLE_BYTES = 1024 * 1024 * 1024
_VOLATILE = {"tmpfs", "ramfs"}
_REMOTE = {"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs"}


def check_folder(folder: Path, mounts: Path = Path("/proc/mounts")) -> list[Finding]:
    """Permissions, file system and free space of the folder; nothing is changed."""
    if not folder.is_dir():
        if folder.exists():
            return [problem("files", f"{folder} is not a folder", "remove that file, or choose another folder")]
        return [ok("files", f"{folder} does not exist yet; the first start makes it")]
    try:
        return [*_permissions(folder), *_file_system(folder, mounts), *_room(folder)]
    except OSError as error:
        return [problem("files", f"{folder} cannot be read: {error.strerror}", "run this as the user who owns it")]


def _permissions(folder: Path) -> list[Finding]:
    findings: list[Finding] = []
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o077:
        findings.append(
            warning("files", f"other users can look into {folder} (mode {mode:o})", f"`chmod 700 {folder}`")
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        findings.append(
            problem("files", f"{folder} cannot be written by this user", f"make it writable: `chmod u+rwx {folder}`")
        )
    for name in (ADDRESS_FILE, CONFIG_FILE):
        path = folder / name
        if path.exists() and (mode := stat.S_IMODE(path.stat().st_mode)) & 0o077:
            findings.append(
                problem(
                    "files",
                    f"{path} holds the server's token and other users can read it (mode {mode:o})",
                    f"stop the coven, remove {path.parent / ADDRESS_FILE} and start again: that makes a new token",
                )
            )
    return findings or [ok("files", f"{folder} and the token in it are this user's alone")]


def _file_system(folder: Path, mounts: Path) -> list[Finding]:
    kind = file_system_of(folder, mounts)
    if kind in _VOLATILE:
        return [
            problem("disk", f"{folder} is in memory ({kind}): the journals are gone at the next boot", "use a disk")
        ]
    if kind in _REMOTE:
        return [
            warning(
                "disk",
                f"{folder} is on a network file system ({kind}): locks and fsync may not hold there",
                "keep the folder on a local disk, or run a NATS server of its own and set `nats: nats://…`",
            )
        ]
    return []


def file_system_of(folder: Path, mounts: Path) -> str:
    """The type of the file system that holds the folder; empty when the system does not tell."""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return ""
    place = folder.resolve()
    best, kind = -1, ""
    for line in lines:
        fields = line.split()
        if len(fields) < 3:
            continue
        point = Path(fields[1].encode().decode("unicode_escape"))
        if place.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), fields[2]
    return kind


def _room(folder: Path) -> list[Finding]:
    free, taken = shutil.disk_usage(folder).free, store_bytes(folder)
    said = f"{free / 1e9:.1f} GB free for {folder}, its store takes {taken / 1e6:.1f} MB"
    if free < RESERVE_BYTES:
        return [problem("disk", said, f"free some space: a start needs {RESERVE_BYTES / 1e6:.0f} MB")]
    if free < _AMPLE_BYTES:
        return [warning("disk", said, "free some space soon: at the end of it, appends are refused")]
    return [ok("disk", said)]
