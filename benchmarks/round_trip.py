"""The whole walk of one tool turn: a chat message in, a spell cast, a chat message out. Nothing sleeps.

ChatAfferent, AgentPrompt, the crystal, AgentToolCall, SpellInvocation, SpellResult, AgentToolResult, the crystal,
AgentResponse, ChatEfferentDraft, ChatEfferent, and its delivery: four hops, every step journaled and acknowledged.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, ClassVar

from benchmarks.entries import BODY
from benchmarks.harness import (
    Profile,
    Result,
    alone,
    compare,
    cpu_of,
    fresh_name,
    fresh_store,
    percentile,
    running_server,
)
from benchmarks.raw import connected, make_stream
from branches.agents import AGENTS
from branches.agents.cantrip import configure
from branches.agents.crystal import Crystal, CrystalRequest, CrystalResponse, ToolCall, Usage
from branches.agents.folding import Folding
from branches.agents.gates import GateDefinition
from branches.agents.options import AgentsOptions, CircleOptions
from branches.agents.service import AgentsService
from branches.agents.wards import Ward
from branches.catalogue import Catalogue, LeafInfo, LeafKind
from branches.chat import CHAT, ChatDelivered, ChatEfferent
from branches.chat.leaf import ChatPort
from branches.chat.service import ChatService
from branches.spellcasting import SPELLCASTING, Casting, Spell
from branches.spellcasting.service import SpellcastingService
from covenants import check, load_text
from covenants.applied import CovenantApplied
from covenants.dead_letters import dead_letter_registry
from covenants.router import Router
from journals import EntryRegistry, Record, Store

_YAML = b"""
coven: benchmark
nats: embedded
branches:
  chat: {leaf: bench}
  agents:
    crystal: bench
    circle: {medium: tools, gates: [done, bench.echo], wards: [{max_turns: 40}]}
  spellcasting: {bench: {}}
covenant:
  - ChatAfferent -> AgentPrompt
  - AgentResponse -> ChatEfferentDraft
  - {route: AgentToolCall -> SpellInvocation, fault: AgentToolFault}
  - SpellResult -> AgentToolResult
  - SpellFault -> AgentToolFault
  - AgentChunk -> nowhere
  - AgentStreamCompleted -> nowhere
  - AgentThought -> nowhere
"""


class Echo(Spell, frozen=True, kw_only=True):
    """Give the text back."""

    full_name: ClassVar[str] = "bench.echo"
    idempotent: ClassVar[bool] = True  # as reading a file is
    text: str


class EchoSubstrate:
    """Casts `bench.echo`."""

    async def cast(self, spell: Spell, casting: Casting) -> Any:
        """The text."""
        assert isinstance(spell, Echo)
        return {"text": spell.text}

    async def close(self) -> None:
        """Nothing to release."""


class OneToolCrystal:
    """Calls the tool once, then answers with what it gave."""

    async def invoke(self, request: CrystalRequest, on_text: Callable[[str], None] | None = None) -> CrystalResponse:
        """By the last message alone."""
        last = request.messages[-1]
        if last.role == "tool":
            return CrystalResponse(content=f"it said {last.content}", usage=Usage(prompt=10, completion=5))
        return CrystalResponse(
            tool_calls=(ToolCall("t1", "bench.echo", '{"text":"hello"}'),), usage=Usage(prompt=10, completion=5)
        )


class BenchLeaf:
    """A chat that says one thing, waits for the answer, and says the next."""

    def __init__(self) -> None:
        self.port: ChatPort | None = None
        self._answered: asyncio.Event = asyncio.Event()

    async def run(self, port: ChatPort, ready: Callable[[], None]) -> None:
        """Stay open."""
        self.port = port
        ready()
        await asyncio.Event().wait()

    async def deliver(self, message: Record[ChatEfferent]) -> str | None:
        """The answer is here."""
        self._answered.set()
        return None

    async def ask(self, conversation: str, text: str = "please echo") -> float:
        """One exchange; gives milliseconds."""
        assert self.port is not None
        self._answered.clear()
        began = time.perf_counter()
        await self.port.receive(conversation, "ada", text)
        await self._answered.wait()
        return (time.perf_counter() - began) * 1000


_RECORDS = 11
"""Records of a turn that are written one after the other, from the message to the committed answer."""
_RAW = f"nats-py, {_RECORDS} writes in a row"
_BLOCKS, _RAW_SHARE = 20, 5

_CATALOGUE = Catalogue(
    leaves=(
        LeafInfo(name="bench", kind=LeafKind.CHAT, summary="", factory="benchmarks.round_trip:BenchLeaf"),
        LeafInfo(name="bench", kind=LeafKind.CRYSTAL, summary="", factory="benchmarks.round_trip:OneToolCrystal"),
        LeafInfo(
            name="bench",
            kind=LeafKind.SUBSTRATE,
            summary="",
            factory="benchmarks.round_trip:EchoSubstrate",
            spells=(Echo,),
        ),
    )
)


@asynccontextmanager
async def walking(
    store: Store,
    crystal: Crystal | None = None,
    *,
    leaf: BenchLeaf | None = None,
    max_turns: int = 40,
    folding: Folding | None = None,
) -> AsyncIterator[BenchLeaf]:
    """All four services over a store."""
    checked = check(load_text(_YAML, {}), _CATALOGUE)
    assert checked.config is not None, checked.problems
    manifests = {"chat": CHAT, "agents": AGENTS, "spellcasting": SPELLCASTING}
    journals = {name: await store.open(name, manifest.registry()) for name, manifest in manifests.items()}
    leaf = leaf or BenchLeaf()
    gate = GateDefinition(Echo.name(), Echo.description(), Echo.schema())
    options = AgentsOptions(
        crystal="bench",
        circle=CircleOptions(gates=("done", "bench.echo"), wards=(Ward(max_turns=max_turns),)),
        folding=folding,
    )
    services = [
        SpellcastingService(
            "spellcasting", journals["spellcasting"], {"bench": EchoSubstrate()}, {Echo.name(): Echo}, owner="b"
        ),
        AgentsService("agents", journals["agents"], configure(crystal or OneToolCrystal(), options, [gate]), owner="b"),
        Router(
            checked.config.routes,
            journals,
            short_lived={},
            system=await store.open("coven", EntryRegistry((CovenantApplied,))),
            dead_letters=await store.open("dead-letters", dead_letter_registry()),
            owner="b",
        ),
        ChatService("chat", journals["chat"], leaf, owner="b"),
    ]
    tasks: list[asyncio.Task[None]] = []
    for service in services:
        ready = asyncio.Event()
        tasks.append(asyncio.create_task(service.run(ready.set)))
        await ready.wait()
    try:
        yield leaf
    finally:
        for task in reversed(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def run(profile: Profile, scale: float) -> list[Result]:
    """In blocks, and between them the same number of records written by plain `nats-py`, one after the other."""
    turns = max(200, int(5000 * scale))
    limit = 4.0 if profile == "process" else 7.0
    took: list[float] = []
    figures: dict[str, list[float]] = {"coven": [], _RAW: []}
    ours = servers = 0.0
    async with (
        running_server(profile) as server,
        fresh_store(server) as store,
        walking(store) as leaf,
        connected(server) as client,
        aclosing((await store.open("chat", CHAT.registry())).tail(kinds={ChatDelivered.kind()})) as delivered,
    ):

        async def turn(text: str) -> float:
            """One exchange; the next one begins when this one's delivery is recorded, as a person would."""
            milliseconds = await leaf.ask(text)
            await anext(delivered)
            return milliseconds

        name, jetstream = fresh_name(), client.jetstream()
        await make_stream(client, name)
        for _ in range(50):
            await turn("warm")
        for _ in range(_BLOCKS):
            cpu, server_cpu = time.process_time(), cpu_of(server)
            block = [await turn("kitchen") for _ in range(turns // _BLOCKS)]
            ours, servers = ours + time.process_time() - cpu, servers + cpu_of(server) - server_cpu
            took += block
            figures["coven"].append(statistics.median(block))
            began = time.perf_counter()
            for _ in range(len(block) // _RAW_SHARE):
                for number in range(_RECORDS):
                    await jetstream.publish(f"{name}.{number % 3}", BODY)
            figures[_RAW].append((time.perf_counter() - began) * 1000 / (len(block) // _RAW_SHARE))
    tenth = max(20, len(took) // 10)
    early, late = statistics.median(took[:tenth]), statistics.median(took[-tenth:])
    title = "tool round trip"
    return [
        alone(f"{title}, p50", profile, "ms", percentile(took, 0.5), limit),
        *compare(f"{title}, p50 of blocks", profile, "ms", figures, {}, better="lower"),
        alone(f"{title}, p99", profile, "ms", percentile(took, 0.99)),
        alone(f"{title}, last tenth of {turns:,} turns", profile, "ms", late, early * 1.2, "1.2 x the first tenth"),
        alone(f"{title}, our CPU", profile, "ms", ours / len(took) * 1000),
        alone(f"{title}, the server's CPU", profile, "ms", servers / len(took) * 1000),
    ]
