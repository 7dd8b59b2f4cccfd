"""The looms of a coven: which journal they are read from, and what they look like as plain data."""

from __future__ import annotations

from typing import Any

import msgspec

from branches.agents.crystal import Usage
from branches.agents.loom import Loom, Thread, export_loom
from coven.shelf import Shelf
from journals import Journal

AGENTS = "agents"


class NoAgents(Exception):
    """It is not clear which agents instance is meant, or there is none of that name."""

    def __init__(self, name: str | None, known: tuple[str, ...]) -> None:
        have = f"this coven has {', '.join(known)}" if known else "this coven has none"
        asked = "say which agents instance with --agents" if name is None else f"there is no agents instance {name!r}"
        super().__init__(f"{asked}; {have}")
        self.name, self.known = name, known


async def agents_journal(shelf: Shelf, name: str | None) -> Journal:
    """The journal of this agents instance, or of the only one. Raises `NoAgents`."""
    known = tuple(each for each, branch in shelf.config.branches.items() if branch.manifest.branch == AGENTS)
    if name is None and len(known) == 1:
        return await shelf.open(known[0])
    if name not in known:
        raise NoAgents(name, known)
    return await shelf.open(name)


def thread_data(thread: Thread) -> dict[str, Any]:
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
    }


def loom_data(loom: Loom) -> dict[str, Any]:
    """A loom whole: its threads by the ids of their turns, the turns as they are exported, and what all of it cost."""
    return {
        "threads": [{**thread_data(thread), "turns": [turn.id for turn in thread.turns]} for thread in loom.threads],
        "turns": [msgspec.Raw(line.rstrip(b"\n")) for line in export_loom(loom)],
        "usage": usage_data(loom.usage()),
    }


def usage_data(usage: Usage) -> dict[str, int]:
    """Tokens by name, the unused ones too."""
    return {"prompt": usage.prompt, "completion": usage.completion, "cached": usage.cached}
