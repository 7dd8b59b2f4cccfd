"""The cantrip: crystal, call and circle. A value, not a running thing; cast it on intents."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from branches.agents.call import Call
from branches.agents.circle import Circle
from branches.agents.crystal import Crystal
from branches.agents.gates import DONE, GateDefinition
from branches.agents.internal import EntityCast
from branches.agents.options import AgentsOptions
from branches.agents.wards import resolve


class InvalidCantrip(ValueError):
    """A cantrip that could not work: it lacks a part, or nothing would ever end it."""


class Cantrip(msgspec.Struct, frozen=True):
    """The recipe. Raises `InvalidCantrip` unless an episode can end and is sure to."""

    crystal: Crystal
    call: Call
    circle: Circle

    def __post_init__(self) -> None:
        if self.crystal is None:  # pyright: ignore[reportUnnecessaryComparison]
            raise InvalidCantrip("cantrip requires a crystal")
        if not self.circle.has_done:
            required = self.call.require_done_tool
            raise InvalidCantrip(
                "cantrip with require_done must have a done gate" if required else "circle must have a done gate"
            )
        if not self.circle.wards.truncates:
            raise InvalidCantrip("cantrip must have at least one truncation ward (e.g. max_turns: 40)")


def configure(crystal: Crystal, options: AgentsOptions, gates: Iterable[GateDefinition]) -> Cantrip:
    """The cantrip that the options describe. Of the gates that others serve, only those named are in its circle.

    A named gate that nobody serves is not offered. Raises `InvalidCantrip`.
    """
    served = {gate.name: gate for gate in (DONE, *gates)}
    named = tuple(served[name] for name in dict.fromkeys(options.circle.gates) if name in served)
    call = Call(
        system_prompt=options.call.system_prompt,
        require_done_tool=options.call.require_done_tool,
        tool_choice=options.call.tool_choice,
    )
    return Cantrip(crystal, call, Circle(named, resolve(options.circle.wards)))


def cast_entry(cantrip: Cantrip, entity: str) -> EntityCast:
    """What the journal keeps of a cantrip: all but the crystal, which may change while an entity lives."""
    call, circle = cantrip.call, cantrip.circle
    return EntityCast(
        entity=entity,
        system_prompt=call.system_prompt,
        require_done_tool=call.require_done_tool,
        tool_choice=call.tool_choice,
        gates=circle.gates,
        wards=circle.wards,
        sampling=call.sampling,
        cantrip="",
    )


def recall(crystal: Crystal, cast: EntityCast) -> Cantrip:
    """The cantrip that was recorded, with this crystal. Raises `InvalidCantrip`."""
    call = Call(
        system_prompt=cast.system_prompt, require_done_tool=cast.require_done_tool, tool_choice=cast.tool_choice
    )
    return Cantrip(crystal, call, Circle(cast.gates, cast.wards))
