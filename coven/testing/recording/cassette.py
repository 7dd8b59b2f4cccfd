"""The file of recorded exchanges: indented JSON that people can read, and versions can be compared."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

_BODIES = ("json", "lines", "base64")


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was sent. At most one of `json`, `lines` of text, and `base64` of what is no text."""

    json: Any = msgspec.UNSET
    lines: tuple[str, ...] | None = None
    base64: str | None = None

    @property
    def raw(self) -> bytes:
        """The body; JSON has the same values, and other blanks."""
        if self.json is not msgspec.UNSET:
            return msgspec.json.encode(self.json)
        if self.lines is not None:
            return "\n".join(self.lines).encode()
        return base64.b64decode(self.base64 or "")


class Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request, without what is secret. `target` is the path with its query."""

    method: str
    host: str
    target: str
    headers: dict[str, str] = {}
    body: Body = Body()


class Answered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came back. The connection `broke` behind the body, or nobody wanted more of it."""

    status: int
    headers: dict[str, str] = {}
    body: Body = Body()
    broke: bool = False


class Exchange(msgspec.Struct, frozen=True):
    """A request and its answer."""

    request: Asked
    response: Answered


class Cassette(msgspec.Struct, frozen=True, kw_only=True):
    """All exchanges in order; `keys` are the environment variables that the keys stood in."""

    cassette: Literal[1] = 1
    keys: tuple[str, ...] = ()
    exchanges: tuple[Exchange, ...] = ()


def body_of(raw: bytes, headers: Mapping[str, str]) -> Body:
    """The body as it is kept."""
    if not raw:
        return Body()
    try:
        if "json" in headers.get("content-type", ""):
            return Body(json=msgspec.json.decode(raw))
    except msgspec.DecodeError:
        pass
    try:
        return Body(lines=tuple(raw.decode().split("\n")))
    except UnicodeDecodeError:
        return Body(base64=base64.b64encode(raw).decode())


def load(path: Path) -> Cassette:
    """Raises `OSError`, and `ValueError` for a file that is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Cassette)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path} is no cassette: {error}. Record it anew.") from error


def save(cassette: Cassette, path: Path) -> None:
    """Write it whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(cassette), indent=2) + b"\n")
    unfinished.replace(path)
