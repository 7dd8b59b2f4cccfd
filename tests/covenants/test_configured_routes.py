"""Routes of a file in the router: what is written in `coven.yaml` is what happens to the journals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from branches.agents.entries import (
    AgentChunk,
    AgentPrompt,
    AgentResponse,
    AgentToolCall,
    AgentToolFault,
    ApprovalAsked,
    ApprovalGiven,
)
from branches.chat import ChatAfferent, ChatChunk, ChatEfferentDraft
from branches.chat.entries import ChatAnswer, ChatQuestion
from branches.spellcasting import SpellInvocation
from covenants import Config
from covenants.applied import CovenantApplied
from covenants.dead_letters import DeadLetter, dead_letter_registry
from covenants.router import Router
from journals import Entry, EntryRegistry, Journal, Record, Store
from tests.covenants.configs import RIGHT, configured, edited

REPLY = "  - AgentResponse -> ChatEfferentDraft\n"


class Journals:
    """The journals of a configuration, by instance."""

    def __init__(self, config: Config, store: Store) -> None:
        self._config, self._store = config, store

    async def open(self, instance: str, *, short_lived: bool = False) -> Journal:
        registry = self._config.branches[instance].manifest.registry(short_lived=short_lived)
        name = f"{instance}-chunks" if short_lived else instance
        return await self._store.open(name, registry, short_lived=short_lived)

    async def dead_letters(self) -> Journal:
        return await self._store.open("dead-letters", dead_letter_registry())

    @asynccontextmanager
    async def routed(self) -> AsyncIterator[None]:
        config = self._config
        router = Router(
            config.routes,
            {name: await self.open(name) for name in config.branches},
            short_lived={name: await self.open(name, short_lived=True) for name in ("chat", "agents")},
            system=await self._store.open("coven", EntryRegistry((CovenantApplied,))),
            dead_letters=await self.dead_letters(),
            owner="test",
        )
        ready = asyncio.Event()
        task = asyncio.create_task(router.run(ready.set))
        await ready.wait()
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def arrival(journal: Journal, kind: type[Entry]) -> Record[Entry]:
    """The next record of this kind, or the one that is there."""
    return await journal.wait_for(lambda record: record.kind == kind.kind(), timeout=60)


async def test_a_message_becomes_a_prompt(store: Store) -> None:
    journals = Journals(configured(), store)
    chat, agents = await journals.open("chat"), await journals.open("agents")
    async with journals.routed():
        await chat.append(ChatAfferent(sender="ada", text="Hello"), session="s", correlation_id="c", origin="chat")
        record = await arrival(agents, AgentPrompt)
    assert record.entry == AgentPrompt(sender="ada", text="Hello")
    assert record.route == "chat.ChatAfferent -> agents.AgentPrompt"
    assert (record.correlation_id, record.origin) == ("c", "chat")


async def test_tool_calls_go_to_their_spell_or_come_home_as_a_fault(store: Store) -> None:
    journals = Journals(configured(), store)
    agents, spells = await journals.open("agents"), await journals.open("spellcasting")
    arguments = {"path": "notes.md"}
    async with journals.routed():
        for call, tool in (("c1", "fs.raed_text"), ("c2", "fs.read_text")):
            await agents.append(
                AgentToolCall(correlation_id=call, tool_name=tool, arguments=arguments),
                session="s",
                correlation_id=call,
            )
        fault = await arrival(agents, AgentToolFault)
        invocation = await arrival(spells, SpellInvocation)
    assert isinstance(fault.entry, AgentToolFault)
    assert (fault.entry.correlation_id, fault.entry.code) == ("c1", "unknown_tool")
    assert fault.correlation_id == "c1"
    assert invocation.entry == SpellInvocation(correlation_id="c2", spell="fs.read_text", arguments=arguments)


async def test_replies_go_home_by_their_condition(store: Store) -> None:
    text = edited({REPLY: "  - route: AgentResponse -> ChatEfferentDraft\n    when: origin == 'chat'\n"})
    journals = Journals(configured(text), store)
    agents, chat = await journals.open("agents"), await journals.open("chat")
    async with journals.routed():
        for origin in ("discord", "chat"):
            await agents.append(AgentResponse(sender="a", text=origin), session="s", origin=origin)
        record = await arrival(chat, ChatEfferentDraft)
    assert record.entry == ChatEfferentDraft(sender="a", text="chat")


async def test_what_an_expression_cannot_do_is_a_dead_letter_and_the_route_goes_on(store: Store) -> None:
    text = edited({REPLY: "  - route: AgentResponse -> ChatEfferentDraft\n    map: {text: string(1 / size(text))}\n"})
    journals = Journals(configured(text), store)
    agents, chat = await journals.open("agents"), await journals.open("chat")
    async with journals.routed():
        for said in ("", "x"):
            await agents.append(AgentResponse(sender="a", text=said), session="s")
        record = await arrival(chat, ChatEfferentDraft)
        letter = await arrival(await journals.dead_letters(), DeadLetter)
    assert record.entry == ChatEfferentDraft(sender="a", text="1")
    assert isinstance(letter.entry, DeadLetter)
    assert letter.entry.code == "expression"
    assert "division by zero" in letter.entry.reason


async def test_chunks_go_from_one_short_lived_journal_to_the_other(store: Store) -> None:
    journals = Journals(configured(), store)
    chunks, shown = await journals.open("agents", short_lived=True), await journals.open("chat", short_lived=True)
    async with journals.routed():
        waiting = asyncio.create_task(arrival(shown, ChatChunk))
        # What is sent before the router listens is gone: chunks are delivered at most once.
        while not waiting.done():
            await chunks.append(AgentChunk(stream="s", index=0, text="He"), session="s")
            await asyncio.wait({waiting}, timeout=0.05)
    assert waiting.result().entry == ChatChunk(stream="s", index=0, text="He")


ASKED = """\
  - ApprovalAsked -> ChatQuestion
  - route: ChatAnswer -> ApprovalGiven
    when: size(answer) / size(by) > 0
"""


async def test_an_answer_goes_to_whoever_has_asked_and_to_nobody_else(store: Store) -> None:
    text = edited(
        {
            REPLY: "  - route: AgentResponse -> ChatEfferentDraft\n    approve: true\n",
            "AgentChunk -> ChatChunk": "AgentChunk -> nowhere",
        },
        RIGHT + ASKED,
    )
    journals = Journals(configured(text), store)
    agents, chat = await journals.open("agents"), await journals.open("chat")

    async def answer(question: Record[Entry], by: str) -> None:
        assert isinstance(question.entry, ChatQuestion)
        entry = ChatAnswer(correlation_id=question.entry.correlation_id, answer="yes", by=by)
        await chat.append(entry, session="s", correlation_id=entry.correlation_id)

    async with journals.routed():
        await agents.append(AgentResponse(sender="a", text="Hello"), session="s", correlation_id="c", origin="chat")
        of_route = await arrival(chat, ChatQuestion)
        await answer(of_route, "")  # of one's own answer the condition would fail
        await answer(of_route, "ada")
        asked = ApprovalAsked(correlation_id="g1", question="May I?", choices=("yes", "no"), gate="x", arguments={})
        await agents.append(asked, session="s", correlation_id="g1")
        of_gate = await chat.wait_for(lambda r: r.kind == "ChatQuestion", after=of_route.position, timeout=60)
        await answer(of_gate, "ada")
        given = await arrival(agents, ApprovalGiven)
        letter = await arrival(await journals.dead_letters(), DeadLetter)
    assert isinstance(given.entry, ApprovalGiven)
    assert given.entry.correlation_id == "g1"
    assert isinstance(letter.entry, DeadLetter)
    assert (letter.entry.code, letter.entry.source_kind) == ("unasked", "AgentResponse")
    assert [record async for record in chat.read(kinds=["ChatEfferentDraft"])] == []
    assert [record.kind async for record in (await journals.dead_letters()).read()] == ["DeadLetter"]
