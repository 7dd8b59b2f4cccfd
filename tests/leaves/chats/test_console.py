"""The console leaf: a pipe or a terminal, one conversation."""

from __future__ import annotations

import asyncio
import os
import pty
from collections.abc import Callable
from contextlib import ExitStack, asynccontextmanager, closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from branches.chat import CHAT, ChatChunk, ChatEfferentDraft
from branches.chat.entries import ChatActivity, ChatAfferent, ChatQuestion
from branches.chat.leaf import DeliveryFailed
from branches.chat.service import ChatService
from branches.service import Finished
from journals import Journal, MemoryStore, StoreUnavailable
from leaves.chats._terminal import LineReader, visible
from leaves.chats.console import Console, ConsoleOptions, open_console


class Pipe:
    """A pipe whose ends look like the standard streams."""

    def __init__(self) -> None:
        read, write = os.pipe()
        self.reader, self.writer = os.fdopen(read, "r"), os.fdopen(write, "w")

    def type(self, text: str | bytes) -> None:
        os.write(self.writer.fileno(), text if isinstance(text, bytes) else text.encode())

    def printed(self) -> str:
        """All that was written, once the writing end is closed."""
        self.writer.close()
        return self.reader.read()

    def close(self) -> None:
        for end in (self.reader, self.writer):
            if not end.closed:
                end.close()


@pytest.fixture
def stdin():
    pipe = Pipe()
    yield pipe
    pipe.close()


@pytest.fixture
def stdout():
    pipe = Pipe()
    yield pipe
    pipe.close()


@pytest.fixture
def pipe():
    """Makes more of them."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(Pipe()))


@pytest.fixture
async def journal() -> Journal:
    return await MemoryStore().open("chat", CHAT.registry())


async def echo(journal: Journal) -> None:
    """The other end: answers every message with its text, and keeps the order."""
    async for record in journal.tail(0, kinds=["ChatAfferent"]):
        answer = ChatEfferentDraft(text=f"<{record.entry.text}>", sender="echo")
        await journal.append(answer, session=record.session, cause=record)


@asynccontextmanager
async def conversing(
    journal: Journal, console: Console, other: Callable[[Journal], object] = echo, chunks: Journal | None = None
):
    chat = ChatService("chat", journal, console, owner="test", chunk_journal=chunks)
    service = asyncio.create_task(chat.run(lambda: None))
    answering = asyncio.create_task(other(journal))
    try:
        async with asyncio.timeout(60):
            yield service
    finally:
        for task in (service, answering):
            task.cancel()
        await asyncio.wait([service, answering])


async def texts(journal: Journal, kind: str = "ChatAfferent") -> list[str]:
    return [record.entry.text async for record in journal.read(kinds=[kind])]


async def test_each_line_is_answered_in_order_and_the_end_of_input_finishes(journal, stdin, stdout):
    console = open_console(ConsoleOptions(history=None), "chat", stdin=stdin.reader, stdout=stdout.writer)
    async with conversing(journal, console) as service:
        stdin.type("one\ntwo\n\nthree")
        stdin.writer.close()
        with pytest.raises(Finished):
            await service
    assert stdout.printed() == "<one>\n<two>\n<three>\n"
    assert await texts(journal) == ["one", "two", "three"]


async def test_nothing_that_is_only_being_written_goes_down_a_pipe(journal, stdin, stdout):
    console = open_console(ConsoleOptions(history=None), "chat", stdin=stdin.reader, stdout=stdout.writer)
    chunks = await MemoryStore().open("chat-chunks", CHAT.registry(short_lived=True), short_lived=True)

    async def think_and_echo(journal: Journal) -> None:
        async for record in journal.tail(0, kinds=["ChatAfferent"]):
            for index, text in enumerate(("A secret ", "thought.")):
                chunk = ChatChunk(stream="s.thought", index=index, text=text, thought=True)
                await chunks.append(chunk, session=record.session, cause=record)
            await chunks.append(ChatChunk(stream="s", index=0, text="<o"), session=record.session, cause=record)
            await journal.append(ChatActivity(activity="thought", text="A secret thought."), session=record.session)
            await journal.append(ChatEfferentDraft(text="<one>"), session=record.session, cause=record)

    async with conversing(journal, console, think_and_echo, chunks) as service:
        stdin.type("one\n")
        stdin.writer.close()
        with pytest.raises(Finished):
            await service
    assert stdout.printed() == "<one>\n"


async def test_the_next_line_is_sent_only_after_the_answer(journal, stdin, stdout):
    console = open_console(ConsoleOptions(history=None), "chat", stdin=stdin.reader, stdout=stdout.writer)
    async with conversing(journal, console) as service:
        stdin.type("one\ntwo\n")
        stdin.writer.close()
        with pytest.raises(Finished):
            await service
    kinds = [record.kind async for record in journal.read()]
    assert kinds == ["ChatAfferent", "ChatEfferentDraft", "ChatEfferent", "ChatDelivered"] * 2 or kinds == [
        "ChatAfferent",
        "ChatEfferentDraft",
        "ChatEfferent",
        "ChatAfferent",
        "ChatDelivered",
        "ChatEfferentDraft",
        "ChatEfferent",
        "ChatDelivered",
    ]


@pytest.mark.parametrize(("sender", "answers"), [("ada", ["yes"]), ("bob", [])])
async def test_only_who_may_answer_a_question_does_and_others_are_told(
    journal, stdin, stdout, capsys, sender: str, answers: list[str]
):
    async def ask(journal: Journal) -> None:
        async for record in journal.tail(0, kinds=["ChatAfferent"]):
            asked = ChatQuestion(correlation_id="q", question="May I?", choices=("yes", "no"), approvers=("ada",))
            await journal.append(asked, session=record.session, correlation_id="q")

    options = ConsoleOptions(history=None, sender=sender)
    console = open_console(options, "chat", stdin=stdin.reader, stdout=stdout.writer)
    async with conversing(journal, console, ask) as service:
        stdin.type("do it\n")
        await journal.wait_for(lambda record: record.kind == "ChatDelivered", timeout=60)
        stdin.type("yes\n")
        stdin.writer.close()
        if answers:
            await journal.wait_for(lambda record: record.kind == "ChatAnswer", timeout=60)
        else:
            with pytest.raises(Finished):
                await service
    assert [record.entry.answer async for record in journal.read(kinds=["ChatAnswer"])] == answers
    assert ("only ada may answer this, not bob" in capsys.readouterr().err) == (not answers)


async def test_an_answer_that_needs_an_approval_is_waited_for_where_it_has_one(journal, stdin, stdout):
    async def ask_first(journal: Journal) -> None:
        asked: dict[str, str] = {}
        async for record in journal.tail(0, kinds=["ChatAfferent", "ChatAnswer"]):
            if record.kind == "ChatAfferent":
                asked[f"of {record.entry.text}"] = record.id
                question = ChatQuestion(
                    correlation_id=f"of {record.entry.text}", question="May I?", choices=("yes", "no")
                )
                await journal.append(question, session=record.session, correlation_id=record.id)
            elif record.entry.answer == "yes":
                answer = ChatEfferentDraft(text=f"<{record.entry.correlation_id}>", sender="echo")
                prompt = asked[record.entry.correlation_id]
                await journal.append(answer, session=record.session, correlation_id=prompt)

    console = open_console(ConsoleOptions(history=None), "chat", stdin=stdin.reader, stdout=stdout.writer)
    async with conversing(journal, console, ask_first) as service:
        stdin.type("one\nyes\ntwo\nno\nthree\nperhaps\nfour\nyes\n")
        stdin.writer.close()
        with pytest.raises(Finished):
            await service
    lines = stdout.printed().replace("May I? (yes/no)\n", "? ")
    assert lines == "? <of one>\n? ? ? <of four>\n"
    assert await texts(journal) == ["one", "two", "three", "four"]


@pytest.mark.parametrize("about", ["the call", "the answer"])
@pytest.mark.parametrize("answer", ["yes", "no"])
async def test_what_follows_from_an_answer_to_an_earlier_question_is_waited_for(
    journal, stdin, stdout, pipe, about, answer
):
    """An agent's question has an id of its own, that of a route is about the answer: a no to it is the end of that."""

    async def ask_first(journal: Journal) -> None:
        prompts: list[str] = []
        async for record in journal.tail(0, kinds=["ChatAfferent", "ChatAnswer"]):
            if record.kind == "ChatAfferent":
                prompts.append(record.id)
                correlation = "q" if about == "the call" else record.id
                question = ChatQuestion(correlation_id="q", question="May I?", choices=("yes", "no"))
                await journal.append(question, session=record.session, id="asked", correlation_id=correlation)
            elif about == "the call" or record.entry.answer == "yes":
                for _ in range(1000):  # long enough for a console that does not wait to be gone
                    await asyncio.sleep(0)
                said = ChatEfferentDraft(text=f"after {record.entry.answer}", sender="echo")
                await journal.append(said, session=record.session, id="said", correlation_id=prompts[0])

    for line, ends in (("do it\n", (stdin, stdout)), (f"{answer}\n", (pipe(), pipe()))):
        typed, printed = ends
        console = open_console(ConsoleOptions(history=None), "chat", stdin=typed.reader, stdout=printed.writer)
        async with conversing(journal, console, ask_first) as service:
            typed.type(line)
            typed.writer.close()
            with pytest.raises(Finished):
                await service
    after = f"after {answer}\n" if (about, answer) != ("the answer", "no") else ""
    assert printed.printed() == f"May I? (yes/no)\n{after}"
    assert await texts(journal) == ["do it"]


async def test_an_answer_to_a_question_from_which_nothing_can_follow_is_not_waited_for(journal, stdin, stdout):
    said = await journal.append(ChatAfferent(sender="you", text="do it"), session="console", id="said")
    question = ChatQuestion(correlation_id="q", question="May I?", choices=("yes", "no"))
    await journal.append(question, session="console", correlation_id="q")
    cancelled = ChatEfferentDraft(text="cancelled", sender="echo")
    await journal.append(cancelled, session="console", correlation_id=said.record.id)

    async def say_nothing(journal: Journal) -> None:
        await asyncio.Event().wait()

    console = open_console(ConsoleOptions(history=None), "chat", stdin=stdin.reader, stdout=stdout.writer)
    async with conversing(journal, console, say_nothing) as service:
        await journal.wait_for(lambda record: record.kind == "ChatDelivered", timeout=60)
        stdin.type("yes\n")
        stdin.writer.close()
        with pytest.raises(Finished):
            await service
    assert [record.entry.answer async for record in journal.read(kinds=["ChatAnswer"])] == ["yes"]


async def test_the_conversation_has_one_name_and_the_person_the_configured_one(journal, stdin, stdout):
    options = ConsoleOptions(sender="ada", session="desk")
    console = open_console(options, "chat", stdin=stdin.reader, stdout=stdout.writer)
    async with conversing(journal, console) as service:
        stdin.type("hi\n")
        stdin.writer.close()
        with pytest.raises(Finished):
            await service
    record = await journal.last(kinds=["ChatAfferent"])
    assert (record.session, record.entry.sender, record.origin) == ("desk", "ada", "chat")


async def test_an_answer_left_over_from_before_is_printed_first(journal, stdin, stdout):
    await journal.append(ChatEfferentDraft(text="from before"), session="console")
    console = open_console(ConsoleOptions(history=None), "chat", stdin=stdin.reader, stdout=stdout.writer)
    async with conversing(journal, console) as service:
        stdin.type("now\n")
        stdin.writer.close()
        with pytest.raises(Finished):
            await service
    assert stdout.printed() == "from before\n<now>\n"


async def test_bytes_that_are_no_text_are_replaced_and_windows_line_ends_dropped(journal, stdin, stdout):
    console = open_console(ConsoleOptions(history=None), "chat", stdin=stdin.reader, stdout=stdout.writer)
    async with conversing(journal, console) as service:
        stdin.type(b"caf\xff\r\n\x00\n")
        stdin.writer.close()
        with pytest.raises(Finished):
            await service
    assert await texts(journal) == ["caf\ufffd", "\x00"]


async def test_input_that_is_closed_from_the_start_finishes_at_once(journal, stdout, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    console = open_console(ConsoleOptions(history=None), "chat", stdout=stdout.writer)
    async with conversing(journal, console) as service:
        with pytest.raises(Finished):
            await service


async def test_when_nobody_reads_the_output_the_console_finishes_and_the_answer_comes_at_the_next_start(
    journal, stdin, stdout
):
    stdout.reader.close()
    console = open_console(ConsoleOptions(history=None), "chat", stdin=stdin.reader, stdout=stdout.writer)
    async with conversing(journal, console) as service:
        stdin.type("one\n")
        with pytest.raises(Finished):
            await service
    again = Pipe()
    console = open_console(ConsoleOptions(history=None), "chat", stdin=stdin.reader, stdout=again.writer)
    async with conversing(journal, console) as service:
        await journal.wait_for(lambda r: r.kind == "ChatDelivered", timeout=60)
    assert again.printed() == "<one>\n"
    again.close()


async def test_a_message_for_another_conversation_is_refused(journal, stdin, stdout):
    console = open_console(ConsoleOptions(history=None), "chat", stdin=stdin.reader, stdout=stdout.writer)
    async with conversing(journal, console):
        await journal.append(ChatEfferentDraft(text="lost"), session="elsewhere")
        outcome = await journal.wait_for(lambda r: r.kind == "ChatUndelivered", timeout=60)
    assert "elsewhere" in outcome.entry.error
    assert stdout.printed() == ""


async def test_a_slow_reader_does_not_block_the_process(journal, stdin, stdout):
    long = "x" * 1_000_000

    async def shout(journal: Journal) -> None:
        async for record in journal.tail(0, kinds=["ChatAfferent"]):
            await journal.append(ChatEfferentDraft(text=long), session="console", cause=record)

    console = open_console(ConsoleOptions(history=None), "chat", stdin=stdin.reader, stdout=stdout.writer)
    async with conversing(journal, console, shout) as service:
        stdin.type("go\n")
        await journal.wait_for(lambda r: r.kind == "ChatEfferent", timeout=60)
        service.cancel()
        await asyncio.wait([service])
    assert service.cancelled()
    assert "ChatDelivered" not in [record.kind async for record in journal.read()]


@pytest.fixture
def terminal():
    """Streams that are a terminal, and prompt_toolkit's own pipe in place of a keyboard."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream, create_pipe_input() as keys, create_app_session(keys, DummyOutput()):
        yield stream, keys
    os.close(ours)


async def test_on_a_terminal_a_person_types_asks_for_help_and_quits(journal, terminal, capsys):
    stream, keys = terminal
    console = open_console(ConsoleOptions(history=None), "chat", stdin=stream, stdout=stream)
    async with conversing(journal, console) as service:
        keys.send_text("hello\r")
        await journal.wait_for(lambda r: r.kind == "ChatDelivered", timeout=60)
        keys.send_text("/help\r/nonsense\r\r/quit\r")
        with pytest.raises(Finished):
            await service
    assert await texts(journal) == ["hello"]


@pytest.mark.parametrize("key", ["\x04", "\x03"], ids=["Ctrl-D", "Ctrl-C"])
async def test_on_a_terminal_the_usual_keys_end_it(journal, terminal, key):
    stream, keys = terminal
    async with conversing(
        journal, open_console(ConsoleOptions(history=None), "chat", stdin=stream, stdout=stream)
    ) as service:
        keys.send_text(key)
        with pytest.raises(Finished):
            await service


async def test_pasted_lines_are_one_message_and_a_path_is_no_command(journal, terminal):
    stream, keys = terminal
    async with conversing(journal, open_console(ConsoleOptions(history=None), "chat", stdin=stream, stdout=stream)):
        keys.send_text("\x1b[200~line one\nline two\x1b[201~\r/etc/hosts\r")
        await journal.wait_for(lambda r: r.kind == "ChatAfferent" and r.entry.text == "/etc/hosts", timeout=60)
    assert await texts(journal) == ["line one\nline two", "/etc/hosts"]


async def test_a_delivery_to_another_conversation_raises(stdin, stdout, journal):
    console = open_console(ConsoleOptions(history=None), "chat", stdin=stdin.reader, stdout=stdout.writer)
    draft = await journal.append(ChatEfferentDraft(text="x"), session="elsewhere")
    with pytest.raises(DeliveryFailed):
        await console.deliver(draft.record)
    assert repr(console) == "<Console chat pipe session=console>"


async def test_a_line_that_could_not_be_recorded_is_sent_again_when_the_service_comes_back(journal, stdin, stdout):
    class Away:
        async def receive(self, *_):
            raise StoreUnavailable("the server is away")

    console = open_console(ConsoleOptions(history=None), "chat", stdin=stdin.reader, stdout=stdout.writer)
    stdin.type("one\ntwo\n")
    stdin.writer.close()
    with pytest.raises(StoreUnavailable):
        await console.run(Away(), lambda: None)
    async with conversing(journal, console) as service:
        with pytest.raises(Finished):
            await service
    assert await texts(journal) == ["one", "two"]
    assert stdout.printed() == "<one>\n<two>\n"


async def test_input_that_arrives_between_two_lives_of_the_service_is_not_lost(journal, stdin, stdout):
    console = open_console(ConsoleOptions(history=None), "chat", stdin=stdin.reader, stdout=stdout.writer)
    async with conversing(journal, console):
        stdin.type("one\n")
        await journal.wait_for(lambda r: r.kind == "ChatDelivered", timeout=60)
    stdin.type("two\n")
    stdin.writer.close()
    async with conversing(journal, console) as service:
        with pytest.raises(Finished):
            await service
    assert await texts(journal) == ["one", "two"]


async def test_what_follows_from_an_answer_is_waited_for_also_when_the_service_comes_back(journal, stdin, stdout):
    said = await journal.append(ChatAfferent(sender="you", text="do it"), session="console")
    question = ChatQuestion(correlation_id="q", question="May I?", choices=("yes", "no"))
    await journal.append(question, session="console", correlation_id="q")

    async def nothing_yet(journal: Journal) -> None:
        await asyncio.Event().wait()

    async def at_last(journal: Journal) -> None:
        for _ in range(1000):  # long enough for a console that does not wait to be gone
            await asyncio.sleep(0)
        done = ChatEfferentDraft(text="done", sender="echo")
        await journal.append(done, session="console", correlation_id=said.record.id)

    console = open_console(ConsoleOptions(history=None), "chat", stdin=stdin.reader, stdout=stdout.writer)
    async with conversing(journal, console, nothing_yet):
        await journal.wait_for(lambda record: record.kind == "ChatDelivered", timeout=60)
        stdin.type("yes\n")
        stdin.writer.close()
        await journal.wait_for(lambda record: record.kind == "ChatAnswer", timeout=60)
    async with conversing(journal, console, at_last) as service:
        with pytest.raises(Finished):
            await service
    assert stdout.printed() == "May I? (yes/no)\ndone\n"


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\n\r", codec="utf-8"), max_size=20), max_size=8))
def test_lines_come_out_as_they_went_in_however_the_pipe_cuts_them(lines):
    read, write = os.pipe()
    try:
        os.write(write, "".join(f"{line}\n" for line in lines).encode())
    finally:
        os.close(write)

    async def collect() -> list[str]:
        reader, found = LineReader(read), list[str]()
        while (line := await reader.line()) is not None:
            found.append(line)
        return found

    assert asyncio.run(collect()) == lines
    os.close(read)


@given(st.text())
def test_what_reaches_a_terminal_cannot_drive_it(text):
    shown = visible(text)
    assert "\x1b" not in shown
    assert all(character.isprintable() or character in "\n\t\u200d" or ord(character) > 127 for character in shown)
    assert visible(shown) == shown
