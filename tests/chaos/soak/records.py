"""What stands in the journals of a coven under load, and what of it still waits for its outcome."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

from branches.agents import AGENTS
from branches.agents.loom import Loom, read_loom
from branches.chat import CHAT
from branches.spellcasting import SPELLCASTING
from coven.lifecycle import system_registry
from covenants.dead_letters import dead_letter_registry
from journals import Entry, EntryRegistry, Record
from journals._log import Stored
from tests.chaos.soak.deployment import Deployment
from tests.chaos.soak.world import World

REGISTRIES: dict[str, EntryRegistry] = {
    "chat": CHAT.registry(),
    "agents": AGENTS.registry(),
    "spellcasting": SPELLCASTING.registry(),
    "dead-letters": dead_letter_registry(),
    "coven": system_registry(),
}
_LOOK_AFTER_S = 1.0
AnyRecord = Record[Any]


class Journals:
    """The journals of a coven, read again and again until nothing in them waits."""

    def __init__(self, deployment: Deployment, world: World) -> None:
        self._deployment, self._world = deployment, world
        self.records: dict[str, list[AnyRecord]] = {name: [] for name in REGISTRIES}
        self.stored: dict[str, list[Stored]] = {}
        self.looms: dict[str, Loom] = {}

    def __repr__(self) -> str:
        return f"<Journals {', '.join(f'{name}: {len(found)}' for name, found in self.records.items())}>"

    def of(self, journal: str, *kinds: str) -> list[AnyRecord]:
        """The records of these kinds, in order."""
        return [record for record in self.records[journal] if record.kind in kinds]

    async def read_until_quiet(self, meanwhile: Callable[[], Awaitable[None]]) -> None:
        """Follow the journals until nothing waits; `meanwhile` is done now and then."""
        news = asyncio.Event()
        async with await self._deployment.server.connect(self._deployment.name) as store:
            opened = [await store.open(name, registry) for name, registry in REGISTRIES.items()]

            async def follow(number: int) -> None:
                journal = opened[number]
                async for record in journal.tail(ends[number]):
                    self.records[journal.name].append(record)
                    news.set()

            ends = [await journal.end() for journal in opened]
            for journal, end in zip(opened, ends, strict=True):
                self.records[journal.name] = [record async for record in journal.read(before=end + 1)]
            following = [asyncio.create_task(follow(number)) for number in range(len(opened))]
            try:
                while any(True for _ in self.waiting()):
                    news.clear()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(news.wait(), _LOOK_AFTER_S)
                    for task in following:
                        if task.done():
                            task.result()
                    await meanwhile()
            finally:
                for task in following:
                    task.cancel()
                await asyncio.gather(*following, return_exceptions=True)

    async def read(self) -> None:
        """Read everything that stands there now, envelopes and looms too."""
        async with await self._deployment.server.connect(self._deployment.name) as store:
            for name, registry in REGISTRIES.items():
                journal = await store.open(name, registry)
                self.records[name] = [record async for record in journal.read()]
                self.stored[name] = [stored async for group in journal.log.read(None, 0, None) for stored in group]
            agents = await store.open("agents", REGISTRIES["agents"])
            for session in {record.session for record in self.of("agents", "AgentPrompt")}:
                self.looms[session] = await read_loom(agents, session)

    def waiting(self) -> Iterator[str]:
        """What has not come to its end yet."""
        recorded = {record.entry.message_id for record in self.of("chat", "ChatAfferent")}
        for said in self._world.said:
            if said.id not in self._world.taken or (said.is_prompt and said.id not in recorded):
                yield f"{said.id} ({said.text}) was never taken"
        ends = (
            ("chat", ("ChatAfferent",), "agents", ("AgentPrompt",)),
            ("agents", ("AgentPrompt",), "agents", ("AgentResponse",)),
            ("agents", ("AgentResponse",), "chat", ("ChatEfferentDraft",)),
            ("chat", ("ChatEfferentDraft",), "chat", ("ChatEfferent",)),
            ("chat", ("ChatEfferent",), "chat", ("ChatDelivered", "ChatUndelivered")),
            ("agents", ("AgentToolCall",), "spellcasting", ("SpellInvocation",)),
            ("spellcasting", ("SpellInvocation",), "spellcasting", ("SpellResult", "SpellFault")),
            ("agents", ("ApprovalAsked",), "chat", ("ChatQuestion",)),
            ("chat", ("ChatQuestion",), "chat", ("ChatEfferent",)),
            ("chat", ("ChatAnswer",), "agents", ("ApprovalGiven",)),
            ("spellcasting", ("SpellResult",), "agents", ("AgentToolResult",)),
            ("spellcasting", ("SpellFault",), "agents", ("AgentToolFault",)),
        )
        for source, kinds, target, outcomes in ends:
            caused = Counter(record.causation_id for record in self.of(target, *outcomes))
            for record in self.of(source, *kinds):
                if not caused[record.id]:
                    yield f"{_named(record)} has no {' or '.join(outcomes)}"


def _named(record: Record[Entry]) -> str:
    return f"{record.kind} {record.id} at {record.position} of {record.journal}, session {record.session},"
