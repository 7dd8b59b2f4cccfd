"""Files and other crystals along the whole line, from a message in the chat to what the chat is to send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from branches.agents import AGENTS
from branches.agents.forking import fork
from branches.attachment import Attachment
from branches.chat import CHAT, ChatAfferent, ChatChunk, ChatEfferentDraft, ChatStreamCompleted
from branches.chat.entries import ChatActivity
from coven.configuration import configure
from coven.host import Host
from journals import Journal, Record, Store, random_id
from tests.living import living

PNG = Attachment("chart.png", "image/png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4_000)
CRYSTALS = """
from hashlib import sha256

from coven.testing import calls, says

class Main:
    def __init__(self, options=None):
        pass

    async def invoke(self, request, on_text=None):
        last = request.messages[-1]
        if last.role == "tool":
            return says(f"I have heard: {last.content}")
        word, _, rest = (last.content or "").partition(" ")
        if word == "send":
            return calls(("fs.attach", {"path": rest}))
        if word == "child":
            named = {"crystal": rest} if rest else {}
            return calls(("call_agent", {"intent": "who are you?", **named}))
        if word == "crystals":
            (gate,) = [tool for tool in request.tools if tool.name == "call_agent"]
            return says(str(gate.parameters["properties"]["crystal"]["enum"]))
        return says(f"main: {[sha256(image.body).hexdigest() for image in last.images]}")

class Thinker(Main):
    async def invoke(self, request, on_text=None, on_thought=None):
        for piece in ("They ", "greet.\\n\\nI ", "greet."):
            on_thought(piece)
        on_text("Good ")
        on_text("morning.")
        return says("Good morning.", thinking="They greet.\\n\\nI greet.")

class Small(Main):
    async def invoke(self, request, on_text=None):
        return says("small")

class Large(Main):
    async def invoke(self, request, on_text=None):
        return says("large")
"""
COVEN = """
coven: hearth
branches:
  chat: {leaf: console}
  agents:
    crystal: {main: {use: crystals.py:Main}}
    crystals:
      small: {small: {use: crystals.py:Small}}
      large: {large: {use: crystals.py:Large}}
    child_crystals: [small]
    circle:
      gates: [done, call_agent, fs.attach]
      wards: [{max_turns: 10}, {max_depth: 1}]
  spellcasting:
    fs: {root: workspace}
covenant:
  - ChatAfferent -> AgentPrompt
  - AgentResponse -> ChatEfferentDraft
  - route: AgentToolCall -> SpellInvocation
    fault: AgentToolFault
  - SpellResult -> AgentToolResult
  - SpellFault -> AgentToolFault
  - AgentThought -> nowhere
  - AgentChunk -> nowhere
  - AgentStreamCompleted -> nowhere
"""


@asynccontextmanager
async def running(folder: Path, store: Store) -> AsyncGenerator[Journal]:
    """All but the chat, whose place the test takes: it says and hears everything in the journal."""
    config = configure(folder / "coven.yaml", {}).config
    host = Host(config, store, environ={}, tell=print, only=["agents", "spellcasting", "covenant"])
    async with living(host):
        yield await store.open("chat", CHAT.registry())


async def talk(chat: Journal, text: str, *files: Attachment, session: str = "s") -> ChatEfferentDraft:
    id = random_id()
    said = ChatAfferent(sender="ada", text=text, attachments=files)
    await chat.append(said, session=session, id=id, correlation_id=id)

    def answers(record: Record) -> bool:
        return record.kind == "ChatEfferentDraft" and record.correlation_id == id

    found = (await chat.wait_for(answers, timeout=60)).entry
    assert isinstance(found, ChatEfferentDraft)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "coven.yaml").write_text(COVEN)
    (tmp_path / "crystals.py").write_text(CRYSTALS)
    (tmp_path / "workspace").mkdir()
    return tmp_path


async def test_an_image_reaches_the_crystal_byte_for_byte_also_after_a_restart(folder: Path, store: Store):
    digest = sha256(PNG.body).hexdigest()
    async with running(folder, store) as chat:
        assert (await talk(chat, "what is this?", PNG)).text == f"main: ['{digest}']"
    async with running(folder, store) as chat:
        assert (await talk(chat, "what is this?", PNG)).text == f"main: ['{digest}']"


async def test_a_file_of_the_workspace_goes_with_the_answer(folder: Path, store: Store):
    (folder / "workspace" / "chart.png").write_bytes(PNG.body)
    async with running(folder, store) as chat:
        answer = await talk(chat, "send chart.png")
        missing = await talk(chat, "send ../coven.yaml")
    assert answer.attachments == (PNG,)
    assert "chart.png" in answer.text
    assert len(answer.text) < 300, "the crystal is told of the file, and does not get its bytes"
    assert missing.attachments == ()
    assert "denied" in missing.text


async def test_children_have_the_crystal_that_is_named(folder: Path, store: Store):
    async with running(folder, store) as chat:
        assert (await talk(chat, "crystals")).text == "['small', 'large']"
        assert (await talk(chat, "child")).text == "I have heard: small"
        assert (await talk(chat, "child large")).text == "I have heard: large"
        assert "no crystal 'huge'" in (await talk(chat, "child huge")).text


async def test_a_fork_may_have_another_crystal(folder: Path, store: Store):
    async with running(folder, store) as chat:
        await talk(chat, "hello")
        agents = await store.open("agents", AGENTS.registry())
        await fork(agents, "s", -1, "other", crystal="large")
        assert (await talk(chat, "who are you?", session="other")).text == "large"
        assert (await talk(chat, "who are you?")).text == "main: []"


@pytest.mark.parametrize("shown", [True, False], ids=["shown", "nowhere"])
async def test_a_thought_reaches_the_chat_in_pieces_where_it_reaches_it_whole(folder: Path, store: Store, shown: bool):
    text = COVEN.replace("crystals.py:Main", "crystals.py:Thinker")
    text = text.replace("AgentChunk -> nowhere", "AgentChunk -> ChatChunk")
    text = text.replace("AgentStreamCompleted -> nowhere", "AgentStreamCompleted -> ChatStreamCompleted")
    if shown:
        text = text.replace("AgentThought -> nowhere", "AgentThought -> ChatActivity")
    (folder / "coven.yaml").write_text(text)
    async with running(folder, store) as chat:
        chunks = await store.open("chat-chunks", CHAT.registry(short_lived=True), short_lived=True)
        assert (await talk(chat, "good morning")).text == "Good morning."
        told: dict[bool, list[str]] = {True: [], False: []}
        thoughts, ended = set[str](), 0
        async with asyncio.timeout(60):
            async for record in chunks.tail(0):
                if isinstance(record.entry, ChatChunk):
                    told[record.entry.thought].append(record.entry.text)
                    thoughts |= {record.entry.stream} if record.entry.thought else set()
                ended += isinstance(record.entry, ChatStreamCompleted)
                if ended == 2:
                    break
        activities = [record.entry async for record in chat.read(kinds=["ChatActivity"])]
    assert "".join(told[False]) == "Good morning."
    assert "".join(told[True]) == ("They greet.\n\nI greet." if shown else "")
    assert activities == [
        ChatActivity(activity="thought", text="They greet.\n\nI greet.", stream=stream) for stream in thoughts
    ]
