"""The entries that only the Agents service itself writes and reads: what the loom is made of.

All records of one episode carry their prompt as cause, and the run's id derives from the prompt's. So turn ids,
parents and sequence need no fields: a turn is `(run, turn)`, its parent the turn before it.
"""

from __future__ import annotations

from branches.agents.crystal import ToolCall, ToolChoice, Usage
from branches.agents.gates import GateDefinition
from branches.agents.wards import Wards
from branches.settled import Mark
from journals import Entry


class EntityCast(Entry, frozen=True, kw_only=True):
    """The call and the circle that this session's entity works under from here on: the root of what follows.

    Written before the first episode of a session, and again before the next one when the configuration has changed;
    an episode keeps those that it began under.
    """

    entity: str
    system_prompt: str | None
    require_done_tool: bool
    tool_choice: ToolChoice
    gates: tuple[GateDefinition, ...]
    wards: Wards


class CrystalCalled(Entry, frozen=True, kw_only=True):
    """Written before the crystal is asked. The messages are a fold of the journal; `context` is their digest.

    `attempt` counts from 1: an attempt without an outcome was cut off, and the crystal is asked again.
    """

    run: str
    turn: int
    attempt: int
    context: str
    messages: int


class AgentUtterance(Entry, frozen=True, kw_only=True):
    """What the crystal answered in this turn. Tool calls keep the provider's ids and text."""

    run: str
    turn: int
    content: str | None
    tool_calls: tuple[ToolCall, ...]
    usage: Usage
    duration_ms: float


class CrystalFailed(Entry, frozen=True, kw_only=True):
    """Why the crystal gave no answer in this turn."""

    run: str
    turn: int
    error: str
    code: str
    duration_ms: float


class AgentsSettled(Mark, frozen=True, kw_only=True):
    """Every prompt up to this position of the journal has its response, so that a start need not look there."""
