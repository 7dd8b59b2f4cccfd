"""The gates `read` and `write`: text files beneath one folder, which is bound when the circle is made (CIRCLE-10)."""

from __future__ import annotations

import os
from typing import Annotated, Any

from pydantic import Field

from branches.agents.gate import Gate, GateFailed, GateUse, gate
from branches.spellcasting import Casting, Spell, SpellFailed
from branches.spellcasting.spells import ReadText, WriteText
from leaves.spells.fs import Filesystem, FsOptions

RelativePath = Annotated[str, Field(description="relative to the folder")]


def read(root: str | os.PathLike[str], *, ephemeral: bool = False) -> Gate:
    """The gate `read(path)`: the text of a file beneath `root`. No path leads out of it."""
    return gate(_read, name="read", idempotent=True, ephemeral=ephemeral, files=_files(root))


def write(root: str | os.PathLike[str]) -> Gate:
    """The gate `write(path, content)`: a file beneath `root`, replaced whole. No path leads out of it."""
    return gate(_write, name="write", idempotent=True, files=_files(root))


async def _read(path: RelativePath, use: GateUse, files: Filesystem) -> str:
    """Read a text file."""
    return (await _cast(files, ReadText(path=path), use))["text"]


async def _write(path: RelativePath, content: str, use: GateUse, files: Filesystem) -> Any:
    """Write a text file; one that exists is replaced."""
    return await _cast(files, WriteText(path=path, text=content, overwrite=True), use)


def _files(root: str | os.PathLike[str]) -> Filesystem:
    return Filesystem(FsOptions(root=os.fspath(root)))


async def _cast(files: Filesystem, spell: Spell, use: GateUse) -> Any:
    try:
        return await files.cast(spell, Casting(id=use.id, session=use.session))
    except SpellFailed as failed:
        raise GateFailed(failed.code, str(failed)) from None
