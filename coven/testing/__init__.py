"""Help for tests: ours and our users'."""

from branches.agents.permission import Forbidding, ModelRequestForbidden
from coven.testing.clock import EagerClock, ManualClock
from coven.testing.recording import CassetteMiss, CassetteMissing, recorded, recording_wanted
from coven.testing.scripted import (
    ScriptedCrystal,
    ScriptExhausted,
    answers_openai,
    at_once,
    calls,
    drops,
    fails,
    finishes,
    runs,
    says,
)

__all__ = [
    "CassetteMiss",
    "CassetteMissing",
    "EagerClock",
    "Forbidding",
    "ManualClock",
    "ModelRequestForbidden",
    "ScriptExhausted",
    "ScriptedCrystal",
    "answers_openai",
    "at_once",
    "calls",
    "drops",
    "fails",
    "finishes",
    "forbid_model_requests",
    "recorded",
    "recording_wanted",
    "runs",
    "says",
]


def forbid_model_requests() -> Forbidding:
    """From now on no request to a real model is made; one that is tried raises `ModelRequestForbidden`.

    Call it once in `conftest.py`, or hold it for a while: `with forbid_model_requests(): ...`. The environment
    variable `COVEN_FORBID_MODEL_REQUESTS=1` does the same for a whole process.
    """
    return Forbidding()
