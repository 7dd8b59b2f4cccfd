"""The cantrip: crystal, call and circle. A value, not a running thing; cast it on intents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from branches.agents.call import Call
from branches.agents.circle import Circle
from branches.agents.crystal import Crystal
from branches.agents.delegation import ChildRequest, child_gates, child_wards
from branches.agents.folding import Folding
from branches.agents.gate import Gate
from branches.agents.gates import ASK_PERSON, DONE, GateDefinition, canonical, delegating
from branches.agents.internal import EntityCast
from branches.agents.options import AgentsOptions
from branches.agents.retrying import Retrying
from branches.agents.wards import resolve
from policies import fingerprint


class InvalidCantrip(ValueError):
    """A cantrip that could not work: it lacks a part, or nothing would ever end it."""


class Cantrip(msgspec.Struct, frozen=True):
    """The recipe (CANTRIP-1 to 3). Raises `InvalidCantrip` unless an episode can end and is sure to.

    `crystals` are those that a child can be given by name; `child_crystals` are the children's own, by depth: the
    first for children, the second for theirs. Without one a child has its parent's crystal.
    """

    crystal: Crystal
    call: Call
    circle: Circle
    folding: Folding | None = None
    retry: Retrying = Retrying()
    crystals: Mapping[str, Crystal] = {}
    child_crystals: tuple[Crystal, ...] = ()

    def __post_init__(self) -> None:
        for part, what in ((self.crystal, "crystal"), (self.call, "call"), (self.circle, "circle")):
            if part is None:  # pyright: ignore[reportUnnecessaryComparison]
                raise InvalidCantrip(f"cantrip requires a {what}")
        if not callable(getattr(self.crystal, "invoke", None)):
            raise InvalidCantrip(
                f"the crystal {self.crystal!r} cannot be asked: give an object with "
                "`async def invoke(request, on_text)`, such as `leaves.crystals.anthropic.AnthropicCrystal()`"
            )
        if not self.circle.has_done:
            required = self.requires_done
            raise InvalidCantrip(
                "cantrip with require_done must have a done gate" if required else "circle must have a done gate"
            )
        if not self.circle.wards.truncates:
            raise InvalidCantrip("cantrip must have at least one truncation ward (e.g. max_turns: 40)")

    @property
    def requires_done(self) -> bool:
        """Whether only the gate `done` ends an episode."""
        return self.call.require_done_tool or self.circle.wards.require_done_tool

    def child(self, request: ChildRequest) -> Cantrip | None:
        """The child's cantrip: never more than this one (COMP-1, COMP-7). None if there is no such crystal."""
        crystal = self.child_crystals[0] if self.child_crystals else self.crystal
        if request.crystal is not None:
            named = self.crystals.get(request.crystal)
            if named is None:
                return None
            crystal = named
        names = child_gates(request, [gate.name for gate in self.circle.available])
        circle = replace(
            self.circle,
            gates=tuple(gate for gate in self.circle.gates if gate.name in names),
            wards=child_wards(request, self.circle.wards),
        )
        prompt = self.call.system_prompt if request.system_prompt is None else request.system_prompt
        call = replace(self.call, system_prompt=prompt)
        return replace(self, crystal=crystal, call=call, circle=circle, child_crystals=self.child_crystals[1:])


def configure(
    crystal: Crystal,
    options: AgentsOptions,
    gates: Iterable[GateDefinition],
    served: Mapping[str, Gate] | None = None,
    crystals: Mapping[str, Crystal] | None = None,
) -> Cantrip:
    """The cantrip that the options describe. Of the gates that others serve, only those named are in its circle.

    A named gate that nobody serves is not offered. `crystals` are those that the options name. Raises `InvalidCantrip`,
    also where `child_crystals` names one that is missing.
    """
    own, others = served or {}, crystals or {}
    built_in = (DONE, *delegating(tuple(others)), ASK_PERSON)
    missing = [name for name in options.child_crystals if name not in others]
    if missing:
        raise InvalidCantrip(
            f"there is no crystal {missing[0]!r} for children; there are: {', '.join(others) or 'none'}"
        )
    known = {gate.name: gate for gate in (*built_in, *gates, *(gate.definition for gate in own.values()))}
    names = dict.fromkeys(map(canonical, options.circle.gates))
    named = tuple(known[name] for name in names if name in known)
    call = Call(
        system_prompt=options.call.system_prompt,
        require_done_tool=options.call.require_done_tool,
        tool_choice=options.call.tool_choice,
        sampling=options.call.sampling,
    )
    functions = {name: gate for name, gate in own.items() if any(each.name == name for each in named)}
    asked = options.circle
    circle = Circle(named, resolve(asked.wards), asked.medium, functions, independent=asked.independent)
    circle = replace(circle, approve=tuple(map(canonical, asked.approve)), approvers=asked.approvers)
    of_children = tuple(others[name] for name in options.child_crystals)
    return Cantrip(crystal, call, circle, options.folding, options.retry, others, of_children)


def cast_entry(cantrip: Cantrip, entity: str) -> EntityCast:
    """What the journal keeps of a cantrip: all but the crystals, which may change while an entity lives."""
    call, circle = cantrip.call, cantrip.circle
    made = EntityCast(
        entity="",
        cantrip="",
        system_prompt=call.system_prompt,
        require_done_tool=call.require_done_tool,
        tool_choice=call.tool_choice,
        gates=circle.gates,
        wards=circle.wards,
        sampling=call.sampling,
        medium=circle.medium,
        independent=circle.independent,
        approve=circle.approve,
        approvers=circle.approvers,
        folding=cantrip.folding,
    )
    return replace(made, entity=entity, cantrip=fingerprint(msgspec.to_builtins(made)))


def recall(cantrip: Cantrip, cast: EntityCast) -> Cantrip:
    """The cantrip that was recorded, with the crystals and functions that this one has. Raises `InvalidCantrip`."""
    call = Call(
        system_prompt=cast.system_prompt,
        require_done_tool=cast.require_done_tool,
        tool_choice=cast.tool_choice,
        sampling=cast.sampling,
    )
    circle = replace(
        cantrip.circle,
        gates=cast.gates,
        wards=cast.wards,
        medium=cast.medium,
        independent=cast.independent,
        approve=cast.approve,
        approvers=cast.approvers,
    )
    return replace(cantrip, call=call, circle=circle, folding=cast.folding)
