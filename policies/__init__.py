"""What decides, and how it survives a crash: the durable-execution engine.

A policy is `async (Action, Context) -> list[Step]`. An orchestrator calls others through its context and is replayed;
an effect touches the world and is recorded. `run` performs a root policy over a journal of runs; a branch performs one
over its own journal with a `Run`, a `Recorder` and its codec. Every call is written ahead, every outcome after it, and
a run that was killed anywhere goes on where its journal ends.
"""

from policies._action import Action
from policies._arguments import Arguments, ArgumentsInvalid
from policies._clock import Alarm, Clock, SystemClock, sleep_until
from policies._codec import (
    Answered,
    Attempted,
    Call,
    Called,
    Codec,
    DurableCodec,
    Failed,
    Failure,
    Marked,
    Outcome,
    RetryCodec,
    Returned,
    Said,
    Signalled,
    Writing,
)
from policies._context import EVENT, SLEEP, Context
from policies._decorators import Decorator, invoke_action, loop_wrapper
from policies._entries import RUN_KINDS, run_registry
from policies._errors import (
    ActionNotAllowed,
    EffectCalls,
    InvalidPayload,
    KeyReused,
    NonDeterminismError,
    NotDurable,
    PolicyError,
    ReplayEnded,
    RunConflict,
    RunUnreadable,
    ScopeEnded,
    UnknownPolicy,
    UnknownRun,
    UnsupportedVersion,
)
from policies._freeze import fingerprint, freeze
from policies._ledger import Ledger
from policies._recorder import Recorder
from policies._registry import Policy, PolicyInfo, PolicyKind, PolicyRegistry
from policies._retry import Retry
from policies._run import Run
from policies._run_codec import RunCodec
from policies._runner import open_runs, read_ledger, replay, resume, run, signal
from policies._slot import CallTime
from policies._snapshot import Snapshot
from policies._step import ACTION_CALL, ACTION_RESULT, TEXT, Step, action_call, action_result, error_result, text

__all__ = [
    "ACTION_CALL",
    "ACTION_RESULT",
    "EVENT",
    "RUN_KINDS",
    "SLEEP",
    "TEXT",
    "Action",
    "ActionNotAllowed",
    "Alarm",
    "Answered",
    "Arguments",
    "ArgumentsInvalid",
    "Attempted",
    "Call",
    "CallTime",
    "Called",
    "Clock",
    "Codec",
    "Context",
    "Decorator",
    "DurableCodec",
    "EffectCalls",
    "Failed",
    "Failure",
    "InvalidPayload",
    "KeyReused",
    "Ledger",
    "Marked",
    "NonDeterminismError",
    "NotDurable",
    "Outcome",
    "Policy",
    "PolicyError",
    "PolicyInfo",
    "PolicyKind",
    "PolicyRegistry",
    "Recorder",
    "ReplayEnded",
    "Retry",
    "RetryCodec",
    "Returned",
    "Run",
    "RunCodec",
    "RunConflict",
    "RunUnreadable",
    "Said",
    "ScopeEnded",
    "Signalled",
    "Snapshot",
    "Step",
    "SystemClock",
    "UnknownPolicy",
    "UnknownRun",
    "UnsupportedVersion",
    "Writing",
    "action_call",
    "action_result",
    "error_result",
    "fingerprint",
    "freeze",
    "invoke_action",
    "loop_wrapper",
    "open_runs",
    "read_ledger",
    "replay",
    "resume",
    "run",
    "run_registry",
    "signal",
    "sleep_until",
    "text",
]
