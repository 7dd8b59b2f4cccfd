"""What decides, and how it survives a crash: the durable-execution engine.

A policy is `async (Action, Context) -> list[Step]`. An orchestrator calls others through its context and is replayed;
an effect touches the world and is recorded. A `Run` performs a root policy over a journal: every call is written
ahead, every outcome after it, and a run that was killed anywhere goes on where its journal ends.
"""

from policies._action import Action
from policies._clock import Alarm, Clock, SystemClock
from policies._codec import Call, Called, Codec, Outcome, Returned, Writing
from policies._context import Context
from policies._errors import (
    ActionNotAllowed,
    EffectCalls,
    InvalidPayload,
    KeyReused,
    NonDeterminismError,
    PolicyError,
    UnknownPolicy,
)
from policies._freeze import fingerprint, freeze
from policies._ledger import Ledger
from policies._recorder import Recorder
from policies._registry import Policy, PolicyInfo, PolicyKind, PolicyRegistry
from policies._run import Run
from policies._snapshot import Snapshot
from policies._step import ACTION_CALL, ACTION_RESULT, Step, action_call, action_result, error_result

__all__ = [
    "ACTION_CALL",
    "ACTION_RESULT",
    "Action",
    "ActionNotAllowed",
    "Alarm",
    "Call",
    "Called",
    "Clock",
    "Codec",
    "Context",
    "EffectCalls",
    "InvalidPayload",
    "KeyReused",
    "Ledger",
    "NonDeterminismError",
    "Outcome",
    "Policy",
    "PolicyError",
    "PolicyInfo",
    "PolicyKind",
    "PolicyRegistry",
    "Recorder",
    "Returned",
    "Run",
    "Snapshot",
    "Step",
    "SystemClock",
    "UnknownPolicy",
    "Writing",
    "action_call",
    "action_result",
    "error_result",
    "fingerprint",
    "freeze",
]
