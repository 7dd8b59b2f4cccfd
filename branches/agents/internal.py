"""The entries that only the Agents service itself writes and reads: what the loom is made of.

All records of one episode carry their prompt as cause, and the run's id derives from the prompt's. So turn ids,
parents and sequence need no fields: a turn is `(run, turn)`, its parent the turn before it. A child's episode has the
id of the call that summoned it as its run. A call's id stands in the envelope, as correlation id of call and outcome.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from branches.agents.crystal import Finish, Sampling, ToolCall, ToolChoice, Usage
from branches.agents.entries import LastTurn
from branches.agents.folding import Folding
from branches.agents.gates import GateDefinition
from branches.agents.wards import Wards
from branches.settled import Mark
from journals import Entry


class EntityCast(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """The call and the circle that this session's entity works under from here on: the root of what follows.

    Written before the first episode of a session, and again before the next one when the configuration has changed;
    an episode keeps those that it began under. `cantrip` is a digest of all the rest but `entity`.
    """

    entity: str
    cantrip: str
    system_prompt: str | None
    require_done_tool: bool
    tool_choice: ToolChoice
    gates: tuple[GateDefinition, ...]
    wards: Wards
    sampling: Sampling = Sampling()
    medium: str = "tools"
    folding: Folding | None = None
    independent: bool = False
    approve: tuple[str, ...] = ()
    approvers: tuple[str, ...] = ()


class EntityForked(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """This session goes on from a turn of another one: the path from there to its root comes before its own turns.

    `session` is read up to `position`, which is where the turn `(run, turn)` had ended. `crystal` names another one.
    """

    session: str
    run: str
    turn: int
    position: int
    crystal: str | None = None


class EntitySummoned(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """A child entity begins, by a call made in `scope`. Its own run is the call's id.

    The child's circle derives from its parent's, so only what was asked for is recorded.
    """

    scope: str
    entity: str
    intent: str
    attempt: int = 1
    context: Any = None
    system_prompt: str | None = None
    gates: tuple[str, ...] | None = None
    crystal: str | None = None
    max_depth: int | None = None


class EntityReturned(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """A child's episode is over; the fields are those of `AgentResponse`."""

    text: str
    answer: Any = UNSET
    ending: str = "terminated"
    ward: str | None = None
    last: LastTurn | None = None


class CrystalCalled(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """Written before the crystal is asked, behind all turns before (LOOM-1).

    The messages are a fold of the journal; `context` is their digest.

    `attempt` counts from 1: an attempt without an outcome was cut off, and the crystal is asked again. `reserved` are
    the tokens set aside for it where a ward bounds them. It `summarises` when it is asked for a summary to fold by.
    """

    run: str
    turn: int
    attempt: int
    context: str
    messages: int
    reserved: int = 0
    summarises: bool = False


class CrystalRetried(Entry, frozen=True, kw_only=True):
    """An attempt failed in a way that may pass: the next one is due at `retry_at`, in seconds since the epoch."""

    run: str
    turn: int
    attempt: int
    error: str
    retry_at: float


class AgentUtterance(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """What the crystal answered in this turn. Tool calls keep the provider's ids and text.

    `model`, `opaque` and `finish` are those of the `CrystalResponse`.

    An answer that begins with a gate served elsewhere stands in that `AgentToolCall`, and one that ends the episode
    by its text in the `AgentResponse`; `utterance_in` finds it in each of them.
    """

    run: str
    turn: int
    content: str | None
    tool_calls: tuple[ToolCall, ...]
    usage: Usage
    duration_ms: float
    model: str | None = None
    opaque: str | None = None
    finish: Finish | None = None


class CrystalFailed(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """Why the crystal gave no answer in this turn. `usage` are the tokens of one that came and was of no use."""

    run: str
    turn: int
    error: str
    code: str
    duration_ms: float
    usage: Usage = Usage()


class GateCalled(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """The entity calls a gate that is served in its own process, by a call made in `scope`.

    A `denied` one was never made: the person who was asked did not approve it, wherever it is served.
    """

    scope: str
    gate: str
    arguments: dict[str, Any]
    attempt: int = 1
    denied: bool = False


class GateReturned(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """What the gate gave, or with a `code` why it gave nothing."""

    result: Any = None
    error: str | None = None
    code: str | None = None


class Refusal(msgspec.Struct, frozen=True):
    """A gate call in code that never left the circle: the how-manieth call of the code it was, counted from 0."""

    index: int
    gate: str
    arguments: Any
    reason: str


class CodeReturned(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """What the code of an utterance came to. The code is the utterance's; gate calls in it are records of their own.

    `output` is what it printed, `value` its last expression, `error` what it threw or what stopped it, `ending` the
    `CodeEnding`. When it called `done`, `value` is the answer. `restored` says that it left the variables as they were.
    Of very many `refusals` the first ones are here; accepted calls are bounded by `max_gate_calls`.
    """

    scope: str
    ending: str = "completed"
    output: str = ""
    value: Any = None
    error: str | None = None
    restored: bool = False
    refusals: tuple[Refusal, ...] = ()


class SandboxKept(Entry, frozen=True, kw_only=True):
    """The variables of a sandbox as they were after the code of the call `after`: a cache, which may be lost."""

    run: str
    after: str
    medium: str
    variables: bytes


class ContextFolded(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """From this turn's request on the turns up to `through` are shown folded, and the newest `kept` whole.

    Turns are counted from 1 through all episodes of the thread. What stands for them follows from them and from what
    the crystal took then (`context_limit`, in tokens), but for a `summary` that a crystal made. A message that alone is
    too long for it is shown by both its ends, also where no turn is folded.
    """

    run: str
    turn: int
    through: int
    kept: int
    context_limit: int | None = None
    summary: str = ""
    usage: Usage = Usage()


class TurnRewarded(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """A reward for a turn of the loom, by its id; of several the newest counts."""

    turn: str
    reward: float
    by: str = ""


class AgentsSettled(Mark, frozen=True, kw_only=True):
    """Every prompt up to this position of the journal has its response, so that a start need not look there."""
