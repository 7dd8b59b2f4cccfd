"""An action: which policy, with which arguments, and what it may call in turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from policies._freeze import freeze


class Action(msgspec.Struct, frozen=True):
    """The edge between two policies. `payload` is frozen JSON, `actions` the policies that the called one may call.

    Raises `InvalidPayload` for a payload that JSON cannot hold.
    """

    policy: str
    payload: Mapping[str, Any] = {}
    actions: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        force_setattr(self, "payload", freeze(self.payload))
        force_setattr(self, "actions", frozenset(self.actions))
