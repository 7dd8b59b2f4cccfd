"""What the rehearsal crystal says about the results of its gate calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from leaves.crystals._phrases import LIST, READ, RUN, WRITE

_ERROR = "Error: "


class _Found(msgspec.Struct):
    name: str
    type: str = "file"
    size: int | None = None


class _Listing(msgspec.Struct):
    entries: list[_Found]
    total: int = 0


class _Text(msgspec.Struct):
    text: str
    size: int = 0
    truncated: bool = False


class _Written(msgspec.Struct):
    size: int
    overwritten: bool = False


class _Output(msgspec.Struct):
    exit_code: int
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False


def tell(gate: str, arguments: Mapping[str, Any], content: str, *, is_error: bool) -> str:
    """One gate's answer in plain words; `content` is the tool message, shown as it stands if it is unfamiliar."""
    if is_error:
        return _tell_error(gate, arguments, content)
    familiar = _TELLERS.get(gate)
    if familiar is None:
        return content
    shape, teller = familiar
    try:
        return teller(arguments, msgspec.json.decode(content, type=shape))
    except (msgspec.DecodeError, RecursionError):
        return content


def _tell_error(gate: str, arguments: Mapping[str, Any], content: str) -> str:
    code, _, reason = content.removeprefix(_ERROR).partition(": ")
    path = arguments.get("path")
    if gate == WRITE and "overwrite" in reason and "exists" in reason:
        return f"{path} exists already. To replace it, say: overwrite {path} with '...'"
    for repeated in (f"{path!r}: ", f"{path!r} is denied: "):
        reason = reason.removeprefix(repeated)
    hint = f" ({code})" if reason and code != "failed" else ""
    return f"I could not {_wish(gate, arguments)}: {reason or code}{hint}"


def _wish(gate: str, arguments: Mapping[str, Any]) -> str:
    if gate == RUN:
        return f"run {arguments.get('cmd', '')}"
    verbs = {LIST: "list", READ: "read", WRITE: "write"}
    return f"{verbs[gate]} {_place(arguments)}" if gate in verbs else f"call {gate}"


def _place(arguments: Mapping[str, Any]) -> str:
    path = arguments.get("path", ".")
    return "the workspace" if path == "." else str(path)


def _tell_listing(arguments: Mapping[str, Any], listing: _Listing) -> str:
    place = _place(arguments)
    if not listing.entries:
        return f"There is nothing in {place}."
    lines = [f"In {place}:", *map(_line, listing.entries)]
    more = listing.total - len(listing.entries)
    if more > 0:
        lines.append(f"  ... and {more:,} more")
    return "\n".join(lines)


def _line(found: _Found) -> str:
    if found.type == "folder":
        return f"  {found.name}/"
    return f"  {found.name}  ({found.type if found.size is None else _bytes(found.size)})"


def _tell_text(arguments: Mapping[str, Any], read: _Text) -> str:
    path = _place(arguments)
    if not read.text:
        return f"{path} is empty."
    cut = f"\n(That is only the beginning of {_bytes(read.size)}.)" if read.truncated else ""
    return f"{path} says:\n{read.text.rstrip()}{cut}"


def _tell_writing(arguments: Mapping[str, Any], written: _Written) -> str:
    path, size = _place(arguments), _bytes(written.size)
    return f"I replaced {path}; it has {size} now." if written.overwritten else f"I wrote {path} ({size})."


def _tell_output(arguments: Mapping[str, Any], output: _Output) -> str:
    told = [text.rstrip() for text in (output.stdout, output.stderr) if text.strip()] or ["(no output)"]
    if output.truncated:
        told.append("(the output was cut)")
    if output.exit_code:
        told.append(f"(exit code {output.exit_code})")
    return "\n".join([f"$ {arguments.get('cmd', '')}", *told])


def _bytes(size: int) -> str:
    return "1 byte" if size == 1 else f"{size:,} bytes"


_TELLERS: dict[str, tuple[type[Any], Callable[[Mapping[str, Any], Any], str]]] = {
    LIST: (_Listing, _tell_listing),
    READ: (_Text, _tell_text),
    WRITE: (_Written, _tell_writing),
    RUN: (_Output, _tell_output),
}
