"""What is done to a coven under load, from one seed: which blows fall, upon whom, and what people say meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Literal

import msgspec

Kind = Literal[
    "kill",
    "end",
    "pause",
    "rival",
    "zombie",
    "overtake",
    "kill all",
    "kill server",
    "pause server",
    "cut",
    "swallow",
    "cancel",
    "reset",
    "fork",
    "say",
    "flood",
]
_WEIGHTS: dict[Kind, int] = {
    "kill": 10,
    "end": 2,
    "pause": 3,
    "rival": 3,
    "zombie": 2,
    "overtake": 5,
    "kill all": 1,
    "kill server": 2,
    "pause server": 1,
    "cut": 4,
    "swallow": 2,
    "cancel": 3,
    "reset": 1,
    "fork": 1,
    "say": 6,
    "flood": 1,
}
_SPELLS = ("once", "once", "again", "refused", "write", "child")


class Blow(msgspec.Struct, frozen=True):
    """Something that is done. `upon` is a service or a conversation, `after` how many things happen first.

    `seconds` is how long somebody stands still, `plans` what people ask for meanwhile, each in a conversation.
    """

    kind: Kind
    upon: str
    after: int
    seconds: float
    plans: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        asked = f", {len(self.plans)} asked" if self.plans else ""
        return f"{self.kind} {self.upon} after {self.after}, {self.seconds:.2f} s{asked}"


def storm(seed: int, blows: int, services: Sequence[str], *, longest: float) -> list[Blow]:
    """So many blows upon these services. Nobody stands still for longer than `longest` seconds."""
    random = Random(seed)
    conversations = [f"room{number}" for number in range(random.randint(2, 6))]
    kinds, weights = list(_WEIGHTS), list(_WEIGHTS.values())
    return [_blow(random, random.choices(kinds, weights)[0], services, conversations, longest) for _ in range(blows)]


def _blow(random: Random, kind: Kind, services: Sequence[str], conversations: list[str], longest: float) -> Blow:
    upon_people = kind in ("cancel", "reset", "fork")
    upon = random.choice(conversations) if upon_people else random.choice(services)
    plans: list[tuple[str, str]] = []
    for _ in range(random.choice((0, 0, 1, 2)) if kind != "say" else random.randint(2, 5)):
        conversation = random.choice(conversations)
        plans += [(conversation, _plan(random)) for _ in range(random.choice((1, 1, 2)))]
    if kind == "flood":
        many = [f"hall{number}" for number in range(random.choice((1, 3, 100)))]
        plans += [(random.choice(many), "") for _ in range(random.choice((50, 200)))]
    return Blow(kind, upon, random.choice((0, 1, 2, 3, 5, 8)), random.uniform(0.02, 1) ** 2 * longest, tuple(plans))


def _plan(random: Random) -> str:
    """What a prompt asks for: turns of calls."""
    turns = ["+".join(random.choices(_SPELLS, k=random.choice((1, 1, 2)))) for _ in range(random.choice((0, 1, 1, 2)))]
    return ", ".join(turns)
