"""Entries: what journals hold. Each class is a kind; each kind has a version and ways up from older ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar

import msgspec

from journals._errors import InvalidEntry, UnknownKind

Upcast = Callable[[dict[str, Any]], dict[str, Any]]
EntryT = TypeVar("EntryT", bound="Entry")


class Entry(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="kind"):
    """Base of all entries. The class name is the kind; `schema_version` counts changes of its fields.

    class ChatAfferent(Entry, frozen=True, kw_only=True):
        text: str
    """

    schema_version: ClassVar[int] = 1

    @classmethod
    def kind(cls) -> str:
        """The name under which entries of this class are stored and routed."""
        return cls.__name__


class Unreadable(Entry, frozen=True, kw_only=True):
    """Stands in for an entry that this process cannot decode. Never written; `reason` says what is wrong."""

    of_kind: str
    version: int
    reason: str
    body: bytes


class EntryRegistry:
    """The kinds that one journal knows. A journal decodes only these: no pickle, no import by name."""

    def __init__(self, entries: Iterable[type[Entry]] = ()) -> None:
        self._types: dict[str, type[Entry]] = {}
        self._decoders: dict[str, msgspec.json.Decoder[Any]] = {}
        self._upcasts: dict[tuple[str, int], Upcast] = {}
        self._encoder = msgspec.json.Encoder()
        for entry in entries:
            self.register(entry)

    def __repr__(self) -> str:
        return f"<EntryRegistry {', '.join(self._types)}>"

    def register(self, entry: type[EntryT]) -> type[EntryT]:
        """Make the class known; usable as a decorator. Raises `InvalidEntry` if another class has its name."""
        kind = entry.kind()
        if self._types.setdefault(kind, entry) is not entry:
            raise InvalidEntry(f"kind {kind!r} is already registered by {self._types[kind]!r}; rename one of them")
        self._decoders[kind] = msgspec.json.Decoder(entry)
        return entry

    def upcast(self, kind: str, version: int) -> Callable[[Upcast], Upcast]:
        """Register the function that turns fields of `version` into those of `version + 1`.

        Raises `UnknownKind`, and `InvalidEntry` where no version follows that one.
        """
        if version not in range(1, current := self.type_of(kind).schema_version):
            raise InvalidEntry(f"{kind} has no version behind {version}: its `schema_version` is {current}")

        def register(function: Upcast) -> Upcast:
            self._upcasts[kind, version] = function
            return function

        return register

    @property
    def kinds(self) -> tuple[str, ...]:
        """The registered kinds, in order of registration."""
        return tuple(self._types)

    def __contains__(self, kind: str) -> bool:
        return kind in self._types

    def type_of(self, kind: str) -> type[Entry]:
        """The class of a kind. Raises `UnknownKind`."""
        try:
            return self._types[kind]
        except KeyError:
            raise UnknownKind(kind, self.kinds) from None

    def encode(self, entry: Entry) -> bytes:
        """The entry as JSON. Raises `InvalidEntry` if it is of no registered kind or JSON cannot hold it."""
        if self._types.get(type(entry).__name__) is not type(entry):
            raise InvalidEntry(f"{type(entry).__name__} is not a kind of this journal (it has {', '.join(self.kinds)})")
        try:
            return self._encoder.encode(entry)
        except (TypeError, ValueError, msgspec.MsgspecError, RecursionError, OverflowError) as error:
            raise InvalidEntry(f"{type(entry).__name__} cannot be written as JSON: {error}") from error

    def decode(self, kind: str, version: int, body: bytes) -> Entry:
        """The entry of this body, upcast if it is older. Never raises: what cannot be read becomes `Unreadable`."""
        decoder = self._decoders.get(kind)
        if decoder is None:
            return self._unreadable(kind, version, body, f"kind {kind!r} is not registered in this journal")
        current = self._types[kind].schema_version
        try:
            if version == current:
                return decoder.decode(body)
            if version > current:
                reason = f"it has version {version}, this program knows versions up to {current}: upgrade Coven here"
                return self._unreadable(kind, version, body, reason)
            return self._decode_older(kind, version, current, body)
        except (msgspec.MsgspecError, ValueError, KeyError, TypeError, RecursionError) as error:
            return self._unreadable(kind, version, body, f"{type(error).__name__}: {error}")

    def _decode_older(self, kind: str, version: int, current: int, body: bytes) -> Entry:
        fields = msgspec.json.decode(body, type=dict[str, Any])
        for step in range(version, current):
            upcast = self._upcasts.get((kind, step))
            if upcast is None:
                return self._unreadable(kind, version, body, f"no upcast from version {step} to {step + 1}")
            try:
                fields = upcast(fields)
            except Exception as error:  # noqa: BLE001 - the code of others: it is a record that cannot be read
                reason = f"the upcast from version {step} raised {type(error).__name__}: {error}"
                return self._unreadable(kind, version, body, reason)
        return msgspec.convert({**fields, "kind": kind}, self._types[kind])

    @staticmethod
    def _unreadable(kind: str, version: int, body: bytes, reason: str) -> Unreadable:
        return Unreadable(of_kind=kind, version=version, reason=reason, body=body)
