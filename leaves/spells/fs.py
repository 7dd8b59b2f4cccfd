"""The `fs` substrate: text files of one folder. Paths are opened beneath it, so that none leads out."""

from __future__ import annotations

import asyncio
import codecs
import errno
import heapq
import mimetypes
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from branches.attachment import FILE_BYTES, Attachment, image_type, plain_name
from branches.spellcasting import Casting, Spell, SpellFailed, WithFiles
from branches.spellcasting.spells import Attach, ListDir, ReadText, WriteText
from journals import derive_id
from leaves.spells.sandbox.beneath import PathEscapes, make_folders, open_beneath
from leaves.spells.workspace import open_workspace

_CHUNK = 1024 * 1024
T = TypeVar("T")
_NO_LINKS_HERE = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


class FsOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `coven.yaml` says about the filesystem."""

    root: Annotated[str, Meta(min_length=1, description="the folder whose files can be reached; made if missing")] = (
        "./workspace"
    )
    max_file_bytes: Annotated[int, Meta(ge=1, description="the most that one call reads or writes, in bytes")] = (
        10_000_000
    )


class Filesystem:
    """Casts the spells of the substrate in the folder `root`; all work is done in threads."""

    def __init__(self, options: FsOptions) -> None:
        self._options = options
        self._root = os.path.abspath(options.root)

    def __repr__(self) -> str:
        return f"<Filesystem {self._root}>"

    async def cast(self, spell: Spell, casting: Casting) -> Any:
        """See `Substrate.cast`. Gives a small dict, with the file where one is to be sent."""
        return await asyncio.to_thread(self._cast, spell, casting)

    async def close(self) -> None:
        """Nothing is held between casts."""

    def _cast(self, spell: Spell, casting: Casting) -> dict[str, Any] | WithFiles:
        match spell:
            case ReadText():
                return self._beneath(spell.path, lambda root: _read(root, spell, self._options.max_file_bytes))
            case ListDir():
                return self._beneath(spell.path, lambda root: _list(root, spell))
            case WriteText():
                return self._beneath(spell.path, lambda root: self._write(root, spell, casting))
            case Attach():
                return self._beneath(spell.path, lambda root: _attach(root, spell, self._options.max_file_bytes))
            case _:
                raise TypeError(f"the filesystem does not cast {spell.name()}")

    def _beneath(self, path: str, work: Callable[[int], T]) -> T:
        """Do the work with the folder open; what the system refuses is an expected failure."""
        root = open_workspace(self._root)
        try:
            return work(root)
        except PathEscapes as escape:
            raise SpellFailed("denied", f"{path!r} is denied: {escape}") from None
        except UnicodeEncodeError:
            raise SpellFailed("bad_arguments", f"{path!r} is not valid Unicode") from None
        except OSError as error:
            raise SpellFailed("failed", f"{path!r}: {_reason(error)}") from None
        finally:
            os.close(root)

    def _write(self, root: int, spell: WriteText, casting: Casting) -> dict[str, Any]:
        body = spell.text.encode()
        limit = self._options.max_file_bytes
        if len(body) > limit:
            raise SpellFailed("bad_arguments", f"the text takes {len(body):,} bytes, over the limit of {limit:,}")
        above, _, name = spell.path.rpartition("/")
        if name in ("", ".", "..") or "\0" in spell.path:
            raise SpellFailed("bad_arguments", f"{spell.path!r} names no file")
        if spell.path.startswith("/"):
            raise PathEscapes("it is absolute; give it relative to the workspace")
        folder = make_folders(root, above)
        try:
            before = _replaceable(folder, name, spell)
            draft = f".{derive_id('draft', casting.id)}.draft"
            _write_draft(folder, draft, body, before)
            try:
                _put_in_place(folder, draft, name, spell)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(draft, dir_fd=folder)
        finally:
            os.close(folder)
        return {"path": spell.path, "size": len(body), "overwritten": before is not None}


def _read(root: int, spell: ReadText, limit: int) -> dict[str, Any]:
    wanted = min(spell.max_bytes, limit)
    body, size = _bytes_of(root, spell.path, wanted + 1)
    truncated = len(body) > wanted
    text, valid = _decode(body[:wanted], truncated)
    return {"path": spell.path, "text": text, "size": size, "truncated": truncated, "valid_utf8": valid}


def _attach(root: int, spell: Attach, limit: int) -> WithFiles:
    limit = min(limit, FILE_BYTES)
    body, size = _bytes_of(root, spell.path, limit + 1)
    if not body:
        raise SpellFailed("failed", f"{spell.path!r} is empty")
    if len(body) > limit:
        raise SpellFailed("failed", f"{spell.path!r} has {size:,} bytes, over the limit of {limit:,}")
    name = plain_name(os.fsencode(spell.path).decode("utf-8", "replace"))
    type = image_type(body) or mimetypes.guess_type(name, strict=False)[0] or "application/octet-stream"
    told = {"path": spell.path, "size": len(body), "media_type": type, "attached_as": name}
    return WithFiles(told, (Attachment(name, type, body),))


def _bytes_of(root: int, path: str, most: int) -> tuple[bytes, int]:
    """The beginning of a file, at most so many bytes, and its size."""
    # Not blocking, so that a pipe without a writer cannot hold us; what is no file is then refused.
    opened = open_beneath(root, path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        status = os.fstat(opened)
        if stat.S_ISDIR(status.st_mode):
            raise SpellFailed("failed", f"{path!r} is a folder; list it with fs.list_dir")
        if not stat.S_ISREG(status.st_mode):
            raise SpellFailed("denied", f"{path!r} is not a regular file")
        body = _read_up_to(opened, most)
    finally:
        os.close(opened)
    return body, max(status.st_size, len(body))


def _read_up_to(file: int, wanted: int) -> bytes:
    parts: list[bytes] = []
    while wanted > 0 and (part := os.read(file, min(wanted, _CHUNK))):
        parts.append(part)
        wanted -= len(part)
    return b"".join(parts)


def _decode(body: bytes, truncated: bool) -> tuple[str, bool]:
    """The text, and whether it was UTF-8. A character that truncation cut in two is left out."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(body, final=not truncated), True
    except UnicodeDecodeError:
        return body.decode("utf-8", "replace"), False


def _list(root: int, spell: ListDir) -> dict[str, Any]:
    folder = open_beneath(root, spell.path, os.O_RDONLY | os.O_DIRECTORY)
    number = count()
    try:
        with os.scandir(folder) as found:
            listed = heapq.nsmallest(spell.max_entries, (entry.name for entry, _ in zip(found, number, strict=False)))
        total = next(number)
        entries = [_describe(folder, name) for name in listed]
    finally:
        os.close(folder)
    return {"path": spell.path, "entries": entries, "total": total, "truncated": total > len(listed)}


def _describe(folder: int, name: str) -> dict[str, Any]:
    shown = os.fsencode(name).decode("utf-8", "replace")
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return {"name": shown, "type": "gone"}
    if stat.S_ISREG(status.st_mode):
        return {"name": shown, "type": "file", "size": status.st_size}
    if stat.S_ISDIR(status.st_mode):
        return {"name": shown, "type": "folder"}
    return {"name": shown, "type": "link" if stat.S_ISLNK(status.st_mode) else "other"}


def _replaceable(folder: int, name: str, spell: WriteText) -> os.stat_result | None:
    """What stands there now, if it may be replaced; None if nothing does."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        raise SpellFailed("denied", f"{spell.path!r} is a link; write to the file that it leads to")
    if stat.S_ISDIR(status.st_mode):
        raise SpellFailed("failed", f"{spell.path!r} is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise SpellFailed("denied", f"{spell.path!r} is not a regular file")
    if not spell.overwrite:
        raise _exists(spell)
    return status


def _write_draft(folder: int, draft: str, body: bytes, before: os.stat_result | None) -> None:
    with suppress(FileNotFoundError):  # a killed service may have left one under this call's id
        os.unlink(draft, dir_fd=folder)
    opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder)
    try:
        if before is not None:
            os.fchmod(opened, stat.S_IMODE(before.st_mode) & 0o777)
        left = memoryview(body)
        while left:
            left = left[os.write(opened, left) :]
        os.fsync(opened)
    except BaseException:
        os.unlink(draft, dir_fd=folder)
        raise
    finally:
        os.close(opened)


def _put_in_place(folder: int, draft: str, name: str, spell: WriteText) -> None:
    """Give the draft its name. Without `overwrite` the name is taken only if it is free, also at this very moment."""
    if not spell.overwrite:
        try:
            os.link(draft, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            return
        except FileExistsError:
            raise _exists(spell) from None
        except OSError as error:
            if error.errno not in _NO_LINKS_HERE:
                raise
        try:  # a file system without hard links: reserve the name, then replace the reservation
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder))
        except FileExistsError:
            raise _exists(spell) from None
    os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)


def _exists(spell: WriteText) -> SpellFailed:
    return SpellFailed("failed", f"{spell.path!r} exists already; set overwrite to true to replace it")


def _reason(error: OSError) -> str:
    """What the system said, in words, without the paths of this machine."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file or folder (or a link to it leads nowhere)"
    if isinstance(error, NotADirectoryError):
        return "something on the way is a file, not a folder"
    return (error.strerror or type(error).__name__).lower()
