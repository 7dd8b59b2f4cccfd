"""The looms of a coven: which journal they are read from, and what they look like as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from branches.agents.circle import Shape
from branches.agents.crystal import Usage
from branches.agents.loom import Loom, Thread, Turn, export_loom, read_loom, rewarded
from branches.agents.options import AgentsOptions
from branches.agents.prices import Price, price_of
from coven.shelf import Shelf
from covenants import Config
from covenants.model import Branch
from covenants.usercode import UserCodeError, load_object
from journals import Journal

AGENTS = "agents"


class NoAgents(Exception):
    """It is not clear which agents instance is meant, or there is none of that name."""

    def __init__(self, name: str | None, known: tuple[str, ...]) -> None:
        have = f"this coven has {', '.join(known)}" if known else "this coven has none"
        asked = "say which agents instance with --agents" if name is None else f"there is no agents instance {name!r}"
        super().__init__(f"{asked}; {have}")
        self.name, self.known = name, known


class Rewards(StrEnum):
    """Which rewards a loom is read with: those that were given, and where nobody gave one, what a function says."""

    GIVEN = "given"
    CIRCLE = "circle"
    IMPLICIT = "implicit"


class RewardFailed(Exception):
    """The function that a circle names for its rewards is of no use."""


def agents_instance(config: Config, name: str | None) -> Branch:
    """The agents instance of this name, or the only one. Raises `NoAgents`."""
    known = {branch.name: branch for branch in config.of_type(AGENTS)}
    if name is None and len(known) == 1:
        return next(iter(known.values()))
    if name not in known:
        raise NoAgents(name, tuple(known))
    return known[name]


async def agents_journal(shelf: Shelf, name: str | None) -> Journal:
    """The journal of this agents instance, or of the only one. Raises `NoAgents`."""
    return await shelf.open(agents_instance(shelf.config, name).name)


async def loom_of(
    shelf: Shelf, name: str | None, session: str | None = None, rewards: Rewards = Rewards.CIRCLE
) -> Loom:
    """The loom of a session with all that belongs to it, or of all sessions. Raises `NoAgents`, `RewardFailed`."""
    loom = await read_loom(await agents_journal(shelf, name), session, forks=session is not None)
    if rewards is Rewards.IMPLICIT:
        return rewarded(loom)
    shape = circle_reward(shelf.config, name) if rewards is Rewards.CIRCLE else None
    return loom if shape is None else rewarded(loom, shape)


def circle_reward(config: Config, name: str | None) -> Shape | None:
    """The function that the circle of an agents instance names for its rewards. Raises `NoAgents`, `RewardFailed`."""
    options = agents_instance(config, name).options
    reference = options.circle.reward if isinstance(options, AgentsOptions) else None
    if reference is None:
        return None
    try:
        score = load_object(reference, config.base)
    except UserCodeError as error:
        raise RewardFailed(f"the circle's reward cannot be had: {error}; {error.hint}") from error

    def shape(turn: Any) -> float | None:
        try:
            value = score(turn)
            return None if value is None else float(value)
        except Exception as error:  # the boundary to user code: whatever it raises is its own problem
            reason = f"{type(error).__name__}: {error}"
            raise RewardFailed(f"the reward `{reference}` failed for turn {turn.id}: {reason}") from error

    return shape


def price_list(config: Config, name: str | None) -> Mapping[str, Price]:
    """What models cost: what the agents instance says, before what is known of them. Raises `NoAgents`."""
    from leaves.crystals.models import PRICES

    options = agents_instance(config, name).options
    return {**PRICES, **options.prices} if isinstance(options, AgentsOptions) else PRICES


def cost_of(turns: Iterable[Turn], prices: Mapping[str, Price]) -> float | None:
    """US dollars for all that these turns read and wrote; None if the price of none of their models is known."""
    priced = [(turn.metadata.usage, price_of(turn.model, prices)) for turn in turns]
    costs = [price.cost(usage) for usage, price in priced if price is not None]
    return sum(costs) if costs else None


def dollars(cost: float | None) -> str:
    """A cost for people; nothing where it is not known."""
    return "" if cost is None else f"${cost:.4f}" if cost < 1 else f"${cost:,.2f}"


def thread_data(thread: Thread, prices: Mapping[str, Price] | None = None) -> dict[str, Any]:
    """A thread in short: whose it is, how it stands, and what it cost. A fork says from which turn it goes on."""
    return {
        "session": thread.session,
        "entity": thread.entity_id,
        "turns": len(thread),
        "forked_from": thread.turns[thread.shared - 1].id if thread.shared else None,
        "ending": thread.ending,
        "intents": thread.intents,
        "result": thread.result,
        "usage": usage_data(thread.usage),
        "cost_usd": None if prices is None else cost_of(thread.own, prices),
    }


def loom_data(loom: Loom, prices: Mapping[str, Price] | None = None) -> dict[str, Any]:
    """A loom whole: its threads by the ids of their turns, the turns as they are exported, and what all of it cost."""
    return {
        "threads": [
            {**thread_data(thread, prices), "turns": [turn.id for turn in thread.turns]} for thread in loom.threads
        ],
        "turns": [msgspec.Raw(line.rstrip(b"\n")) for line in export_loom(loom)],
        "usage": usage_data(loom.usage()),
        "cost_usd": None if prices is None else cost_of(loom.turns, prices),
    }


def usage_data(usage: Usage) -> dict[str, int]:
    """Tokens by name, the unused ones too."""
    return {"prompt": usage.prompt, "completion": usage.completion, "cached": usage.cached}
