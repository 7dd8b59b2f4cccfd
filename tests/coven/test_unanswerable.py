"""Answers that a pipe would wait for in vain: it is said why, since nobody is there to look."""

from __future__ import annotations

import asyncio
import re

import pytest

from branches.chat import CHAT
from branches.chat.entries import ChatAfferent, ChatAnswer, ChatBegunAnew
from coven.configuration import configure
from coven.host import Host
from coven.unanswerable import Unanswerable, leads_to
from journals import MemoryStore

ANSWERS = "- AgentResponse -> ChatEfferentDraft\n"
LOG = """\
  log:
    branch: chat
    leaf: quiet
    use: quiet.py:Quiet
"""
QUIET = """\
class Quiet:
    def __init__(self, options, name): pass
    async def run(self, port, ready):
        import asyncio
        ready()
        await asyncio.Event().wait()
    async def deliver(self, message): return None
"""
AGAIN = """\
from branches.chat import ChatEfferentDraft
made = []
def again(entry):
    made.append(entry)
    return ChatEfferentDraft(text=f"made {len(made)} times")
"""
FAILING = "map: {text: 'string(1 / (size(text) - size(text)))'}"
ASIDE = "fault: log.ChatEfferentDraft"


@pytest.fixture
def written(project):
    """Writes a coven with another chat, where nobody reads, and this in the place of the route of the answers."""

    def write(route: str):
        (project / "quiet.py").write_text(QUIET)
        (project / "again.py").write_text(AGAIN)
        path = project / "coven.yaml"
        text = path.read_text().replace("  # Agents:", f"{LOG}\n  # Agents:").replace(ANSWERS, f"- {{{route}}}\n")
        text = text.replace("-> Chat", "-> chat.Chat").replace(", Chat", ", chat.Chat")
        text = text.replace("- ChatAfferent", "- chat.ChatAfferent").replace("- ChatForked", "- chat.ChatForked")
        text = text.replace("AgentThought -> chat.ChatActivity", "AgentThought -> log.ChatEfferentDraft")
        text = re.sub(r"(AgentChunk|AgentStreamCompleted) -> chat.\w+", r"\1 -> nowhere", text)
        path.write_text(text + "  - log.ChatAfferent -> nowhere\n")
        return configure(path, {}).config

    return write


def host(config, store) -> Host:
    return Host(config, store, environ={}, tell=lambda text: None)


async def test_a_dead_letter_of_the_conversation(project, typed):
    path = project / "coven.yaml"
    path.write_text(
        path.read_text().replace(
            "- ChatAfferent -> AgentPrompt", f"- {{route: ChatAfferent -> AgentPrompt, {FAILING}}}"
        )
    )
    typed.type("hello\n")
    with pytest.raises(Unanswerable, match="could not be routed"):
        await host(configure(path, {}).config, MemoryStore()).run(lambda: None)


async def test_a_dead_letter_of_what_the_conversation_goes_on_in(project, typed):
    path = project / "coven.yaml"
    path.write_text(
        path.read_text().replace(
            "- ChatAfferent -> AgentPrompt", f"- {{route: ChatAfferent -> AgentPrompt, {FAILING}}}"
        )
    )
    store = MemoryStore()
    chat = await store.open("chat", CHAT.registry())
    await chat.append(
        ChatBegunAnew(session="console~again"), session="console", expect=await chat.claim("console", "me")
    )
    typed.type("hello\n")
    with pytest.raises(Unanswerable, match="could not be routed"):
        await host(configure(path, {}).config, store).run(lambda: None)


async def test_a_fault_that_goes_elsewhere(written, typed):
    config = written(f"route: AgentResponse -> chat.ChatEfferentDraft, {FAILING}, {ASIDE}")
    typed.type("hello\n")
    with pytest.raises(Unanswerable, match="its fault went to log: `coven journal read log`"):
        await host(config, MemoryStore()).run(lambda: None)


async def test_something_else_than_was_approved(written, typed):
    config = written(
        f"route: AgentResponse -> chat.ChatEfferentDraft, via: 'again.py:again', {ASIDE}, approve: {{chat: chat}}"
    )
    typed.type("hello\nyes\n")
    with pytest.raises(Unanswerable, match="could not carry a record of this conversation"):
        await host(config, MemoryStore()).run(lambda: None)
    assert "made 1 times" in typed.printed()


async def test_a_no_of_the_pipe_itself_is_no_failure(written, typed):
    config = written(f"route: AgentResponse -> chat.ChatEfferentDraft, {ASIDE}, approve: {{chat: chat}}")
    typed.type("hello\nno\nhello\nyes\n")
    typed.end()
    await host(config, MemoryStore()).run(lambda: None)
    *_, asked, answer = typed.printed().split("May I")
    assert "(yes/no)" in asked + answer
    assert "rehearsal crystal" in answer.partition("(yes/no)")[2]


async def test_a_no_of_somebody_who_is_asked_elsewhere(written, typed):
    asks = "approve: {chat: log, conversation: mods}"
    config = written(f"route: AgentResponse -> chat.ChatEfferentDraft, {asks}")
    store = MemoryStore()
    log = await store.open("log", CHAT.registry())
    typed.type("hello\n")
    running = asyncio.create_task(host(config, store).run(lambda: None))
    question = await anext(log.tail(0, kinds=["ChatQuestion"]))
    said = ChatAnswer(correlation_id=question.entry.correlation_id, answer="no", by="grace")
    await log.append(said, session="mods", correlation_id=said.correlation_id)
    with pytest.raises(Unanswerable, match="needs an approval, and grace has not approved it"):
        await running


async def test_what_no_route_takes(project, typed):
    path = project / "coven.yaml"
    taken = "- {route: ChatAfferent -> AgentPrompt, when: \"text.startsWith('!')\"}"
    path.write_text(path.read_text().replace("- ChatAfferent -> AgentPrompt", taken))
    typed.type("!hello\nhello\n")
    with pytest.raises(Unanswerable, match="no route takes what was said"):
        await host(configure(path, {}).config, MemoryStore()).run(lambda: None)
    assert "rehearsal crystal" in typed.printed()


async def test_nobody_waits_for_what_was_imported(project, typed):
    path = project / "coven.yaml"
    taken = "- {route: ChatAfferent -> AgentPrompt, when: \"text.startsWith('!')\"}"
    path.write_text(path.read_text().replace("- ChatAfferent -> AgentPrompt", taken))
    elsewhere = await MemoryStore().open("chat", CHAT.registry())
    said = await elsewhere.append(ChatAfferent(sender="grace", text="hello"), session="console")
    store, ready = MemoryStore(), asyncio.Event()
    chat = await store.open("chat", CHAT.registry())
    typed.type("")
    running = asyncio.create_task(host(configure(path, {}).config, store).run(ready.set))
    await ready.wait()
    await chat.import_record(said.record)
    typed.type("!hello\n")
    typed.end()
    await running
    assert "rehearsal crystal" in typed.printed()


@pytest.mark.parametrize(
    ("fault", "leads"), [("log.ChatEfferentDraft", False), ("chat.ChatEfferentDraft", True), ("AgentPrompt", True)]
)
def test_where_a_fault_leads(written, fault, leads):
    made = "via: 'again.py:again', max_hops: 3" if fault == "AgentPrompt" else FAILING
    config = written(f"route: AgentResponse -> chat.ChatEfferentDraft, {made}, fault: {fault}")
    (route,) = (route for route in config.routes if route.fault_kind and route.source_kind == "AgentResponse")
    assert leads_to(config, route.fault_kind, {"chat"}) is leads
