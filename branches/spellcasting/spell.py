"""A spell: a struct whose fields are its arguments, with a name, a description and a schema derived from it."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Final, Protocol

import msgspec

from branches.attachment import Attachment


class Spell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all spells. The docstring is what the crystal reads, `Meta(description=…)` describes an argument.

        class ReadText(Spell, frozen=True, kw_only=True):
            \"\"\"Read a text file of the workspace.\"\"\"

            full_name = "fs.read_text"
            idempotent = True
            path: Annotated[str, Meta(description="relative to the workspace")]

    An `idempotent` spell may be cast again after a crash, so no start of it is recorded; any other is then in doubt.
    A cast that takes longer than `max_seconds` is cancelled, since the next one of its session waits for it; None
    leaves it to the substrate.

    Raises `TypeError` where an argument has the name of something here; `field(name=…)` gives it that name outside.
    Also where `max_seconds` is no number.
    """

    full_name: ClassVar[str]
    idempotent: ClassVar[bool] = False
    max_seconds: ClassVar[float | None] = 900.0

    def __init_subclass__(cls) -> None:
        for field, annotation in inspect.get_annotations(cls).items():
            if field in _SETTINGS and "ClassVar" not in str(annotation):
                raise TypeError(
                    f"{cls.__name__}: `{field}` says something about the spell and is no argument; "
                    f"write `{field} = …`, without a type"
                )
            if field in _TAKEN:
                raise TypeError(
                    f"{cls.__name__}: an argument cannot be called `{field}`, which a spell has itself; "
                    f'write `{field}_: … = msgspec.field(name="{field}")`'
                )
        seconds = cls.max_seconds
        if seconds is not None and (type(seconds) not in (int, float) or not seconds >= 0):
            raise TypeError(f"{cls.__name__}: `max_seconds` is a number of seconds or None, not {seconds!r}")

    @classmethod
    def name(cls) -> str:
        """`<substrate>.<verb>`, as gates name it."""
        return cls.full_name

    @classmethod
    def substrate(cls) -> str:
        """The leaf that casts it: what stands before the dot."""
        return cls.full_name.partition(".")[0]

    @classmethod
    def description(cls) -> str:
        """What the crystal is told about it."""
        return " ".join((cls.__doc__ or "").split())

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """The JSON Schema of its arguments, without references."""
        (schema,), components = msgspec.json.schema_components([cls], ref_template="{name}")
        schema = components.get(schema.get("$ref", ""), schema)
        return {key: value for key, value in schema.items() if key not in ("title", "description")}


_SETTINGS: Final = frozenset({"full_name", "idempotent", "max_seconds"})
_TAKEN: Final = frozenset({"name", "substrate", "description", "schema"})


class Casting(msgspec.Struct, frozen=True, kw_only=True):
    """The circumstances of one cast: `id` is the call id and serves as idempotency key; `grants` were valid then."""

    id: str
    session: str
    grants: tuple[str, ...] = ()


class WithFiles(msgspec.Struct, frozen=True):
    """What a substrate may give in the place of a plain result: files that go with the entity's answer to its asker."""

    result: Any
    attachments: tuple[Attachment, ...]


class SpellFailed(Exception):
    """Raised by a substrate for an expected failure: it becomes a `SpellFault` that the entity reads.

    `code` is `denied`, `failed`, `timeout`, `bad_arguments` or `unavailable`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Substrate(Protocol):
    """A leaf that casts the spells of one substrate (a filesystem, a shell)."""

    async def cast(self, spell: Spell, casting: Casting) -> Any:
        """Do it and give what JSON can hold, or that `WithFiles`.

        Raises `SpellFailed`; anything else is a bug, which the entity is told of too.
        """
        ...

    async def close(self) -> None:
        """Release what it holds; ends every process it started."""
        ...
