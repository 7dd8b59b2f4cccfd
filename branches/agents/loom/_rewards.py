"""Rewards: given by somebody, seen in the turn itself, or computed by a function."""

from __future__ import annotations

import math

from msgspec.structs import replace

from branches.agents.circle import Shape
from branches.agents.internal import TurnRewarded
from branches.agents.loom._loom import Loom
from branches.agents.loom._turn import Turn
from journals import Entry, Journal, Record


async def reward(journal: Journal, turn: Turn, value: float, *, by: str = "") -> Record[Entry]:
    """Give a turn a reward: an entry, of which the newest counts. The turn itself stays as it is (LOOM-3).

    Raises `ValueError` for what is no finite number, and what `Journal.append` raises.
    """
    if not math.isfinite(value):
        raise ValueError(f"a reward is a finite number, and {value} is none")
    entry = TurnRewarded(turn=turn.id, reward=value, by=by)
    return (await journal.append(entry, session=turn.session or turn.entity_id)).record


def implicit_reward(turn: Turn) -> float | None:
    """What the turn itself tells: the share of its gate calls that succeeded, where code that threw counts as one.

    None for a turn that called no gate and ran no code that threw.
    """
    failed = sum(call.is_error for call in turn.gate_calls) + (turn.error is not None)
    tried = len(turn.gate_calls) + (turn.error is not None)
    return None if tried == 0 else (tried - failed) / tried


def rewarded(loom: Loom, shape: Shape = implicit_reward) -> Loom:
    """The same loom, with the reward that a function gives wherever nobody has given one."""
    return Loom(
        (
            turn if turn.reward is not None or (value := shape(turn)) is None else replace(turn, reward=value)
            for turn in loom.turns
        ),
        loom.calls.values(),
        loom.unreadable,
    )
