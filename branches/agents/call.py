"""The call: the immutable conditioning of an entity."""

from __future__ import annotations

from typing import NoReturn

import msgspec

from branches.agents.crystal import Sampling, ToolChoice


class CallIsImmutable(AttributeError):
    """Somebody tries to change a call (CALL-1)."""

    def __init__(self, field: str) -> None:
        super().__init__(f"call is immutable: make a new cantrip with another {field!r} instead")
        self.field = field


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """What shapes how the crystal behaves before any intent arrives (CALL-1). The gates come from the circle (CALL-3).

    Setting a field raises `CallIsImmutable`.
    """

    system_prompt: str | None = None
    require_done_tool: bool = False
    tool_choice: ToolChoice = "auto"
    sampling: Sampling = Sampling()


def _refuse(call: Call, name: str, value: object = None) -> NoReturn:
    raise CallIsImmutable(name)


# A frozen struct has methods of its own for these, which say less; they come when the class is made.
type.__setattr__(Call, "__setattr__", _refuse)
type.__setattr__(Call, "__delattr__", _refuse)
