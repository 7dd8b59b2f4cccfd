"""What `coven.yaml` says about an agents instance."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from branches.agents.crystal import Sampling
from branches.agents.folding import Folding
from branches.agents.prices import Price
from branches.agents.retrying import Retrying
from branches.agents.wards import Ward


class CallOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The call: what shapes the crystal before any intent arrives."""

    system_prompt: Annotated[str | None, Meta(description="the first message of every request, unchanged")] = None
    require_done_tool: Annotated[
        bool, Meta(description="only the gate `done` ends an episode; text alone does not")
    ] = False
    tool_choice: Annotated[
        Literal["auto", "required", "none"],
        Meta(description="whether the crystal may, must, or must not call gates"),
    ] = "auto"
    sampling: Annotated[Sampling, Meta(description="hyperparameters of every request")] = Sampling()


class CircleOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The circle: the medium, the gates through it, and the wards that subtract from it."""

    medium: Annotated[
        Literal["tools", "javascript", "python"],
        Meta(description="how the entity acts: by native tool calls, or by code in a sandbox"),
    ] = "tools"
    gates: Annotated[tuple[str, ...], Meta(description="what the entity may call: `done`, and spells by full name")] = (
        "done",
    )
    wards: Annotated[tuple[Ward, ...], Meta(description="of several, the most restrictive holds")] = (
        Ward(max_turns=40),
    )
    independent: Annotated[
        bool, Meta(description="calls of one utterance do not wait for each other; their results keep their order")
    ] = False
    approve: Annotated[
        tuple[str, ...],
        Meta(description="gates that wait until a person approves the call"),
    ] = ()
    approvers: Annotated[
        tuple[str, ...], Meta(description="the names of those who may approve and answer; none means anybody there")
    ] = ()
    reward: Annotated[
        str | None,
        Meta(description="`file.py:function` that scores a turn of the loom which nobody has rewarded"),
    ] = None


class AgentsOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One agents instance.

    agents:
      crystal: auto
      call: {system_prompt: You are the keeper of this workspace.}
      circle: {gates: [done, fs.read_text], wards: [{max_turns: 40}]}
    """

    crystal: Annotated[
        str, Meta(description="which model answers; `auto` takes the first provider whose key is set, else `rehearsal`")
    ] = "auto"
    crystals: Annotated[
        dict[str, Any],
        Meta(
            description="other models by names of yours, each as `crystal` is written: children and forks may have one"
        ),
    ] = {}
    child_crystals: Annotated[
        tuple[str, ...],
        Meta(
            description="which of `crystals` children have: the first those of the entity, the second theirs, and so on"
        ),
    ] = ()
    call: CallOptions = CallOptions()
    circle: CircleOptions = CircleOptions()
    folding: Annotated[
        Folding | None,
        Meta(description="when and how early turns are shown shorter to the crystal"),
    ] = None
    retry: Annotated[Retrying, Meta(description="when a failed request to the crystal is made again")] = Retrying()
    prices: Annotated[
        dict[str, Price],
        Meta(description="what models cost, by `provider/model`, before what is known of them; see `coven loom`"),
    ] = {}
    tool_timeout_s: Annotated[
        float, Meta(gt=0, description="seconds after which a gate call without an answer becomes a fault")
    ] = 60.0
