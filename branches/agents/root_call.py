"""The call at the root: what shaped an entity before any intent arrived."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from branches.agents.call import Sampling
from branches.agents.circle import Circle
from branches.agents.crystal import ToolChoice
from branches.agents.delegation import ChildRequest, child_gates, child_wards
from branches.agents.folding import Folding
from branches.agents.gates import GateDefinition
from branches.agents.internal import EntityCast, EntitySummoned
from branches.agents.wards import Wards
from policies import fingerprint


class RootCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Call and circle of a cantrip, as the loom keeps them; `cantrip_id` is what its turns name it by (CALL-4)."""

    cantrip_id: str
    system_prompt: str | None = None
    require_done_tool: bool = False
    tool_choice: ToolChoice = "auto"
    sampling: Sampling = Sampling()
    gates: tuple[GateDefinition, ...] = ()
    wards: Wards = Wards()
    medium: str = "tools"
    folding: Folding | None = None
    independent: bool = False

    @property
    def circle(self) -> Circle:
        """The circle that reads what the entity wrote."""
        return Circle(self.gates, self.wards, self.medium)


NO_CALL = RootCall(cantrip_id="")
"""Where nothing tells of a call."""
_SAME = tuple(name for name in RootCall.__struct_fields__ if name != "cantrip_id")


def root_call(cast: EntityCast) -> RootCall:
    """The call that a session's entity was cast with."""
    return RootCall(cantrip_id=cast.cantrip, **{name: getattr(cast, name) for name in _SAME})


def child_call(parent: RootCall, summoned: EntitySummoned) -> RootCall:
    """The call of a child: its parent's, less what was not granted, and with what was asked for (COMP-1, COMP-7)."""
    request = request_of(summoned)
    names = child_gates(request, [gate.name for gate in parent.circle.available])
    child = replace(
        parent,
        system_prompt=parent.system_prompt if request.system_prompt is None else request.system_prompt,
        gates=tuple(gate for gate in parent.gates if gate.name in names),
        wards=child_wards(request, parent.wards),
    )
    cast = EntityCast(entity="", cantrip="", **{name: getattr(child, name) for name in _SAME})
    return replace(child, cantrip_id=fingerprint(msgspec.to_builtins(cast)))


def request_of(summoned: EntitySummoned) -> ChildRequest:
    """What a child was asked for with."""
    return ChildRequest(**{name: getattr(summoned, name) for name in ChildRequest.__struct_fields__})
