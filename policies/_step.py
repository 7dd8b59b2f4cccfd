"""A step: one thing that a policy did, in one of a few canonical shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import force_setattr

from policies._action import Action
from policies._freeze import freeze

TEXT: Final = "text"
ACTION_CALL: Final = "action_call"
ACTION_RESULT: Final = "action_result"


class Step(msgspec.Struct, frozen=True):
    """One step. The engine sets the id of what a policy returns; `payload` is frozen JSON.

    Raises `InvalidPayload` for a payload that JSON cannot hold.
    """

    id: str
    actor: str
    type: str
    payload: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        force_setattr(self, "payload", freeze(self.payload))

    @property
    def is_error(self) -> bool:
        """Whether this is an error result: a recoverable failure, as data."""
        return self.type == ACTION_RESULT and self.payload.get("error") is True


def text(actor: str, said: str, *, id: str = "") -> Step:
    """Something that somebody said: `user`, `assistant`, or whoever it was."""
    return Step(id, actor, TEXT, {"text": said})


def action_call(actor: str, action: Action, *, id: str = "") -> Step:
    """The request of one policy to another."""
    return Step(id, actor, ACTION_CALL, {"policy": action.policy, "payload": action.payload})


def action_result(actor: str, payload: Mapping[str, Any], *, id: str = "") -> Step:
    """What a policy gave."""
    return Step(id, actor, ACTION_RESULT, payload)


def error_result(actor: str, code: str, message: str, *, id: str = "") -> Step:
    """A failure that the caller can see and handle."""
    return Step(id, actor, ACTION_RESULT, {"error": True, "code": code, "message": message})
