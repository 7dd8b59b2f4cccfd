"""The console on a real pseudo-terminal: streams, history, more than one line, questions, colour."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import stat
import tty
from collections.abc import Callable
from contextlib import asynccontextmanager

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.output.vt100 import Vt100_Output

from branches.attachment import Attachment
from branches.chat import CHAT, ChatChunk, ChatEfferentDraft, ChatStreamCompleted
from branches.chat.entries import ChatActivity, ChatQuestion
from branches.chat.service import ChatService
from journals import MemoryStore
from leaves.chats._prompting import HELP, one_line
from leaves.chats._terminal import colours
from leaves.chats.console import ConsoleOptions, open_console

_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x07")


class Terminal:
    """The other side of a pseudo-terminal: a keyboard, and all that was ever drawn."""

    def __init__(self, fd: int) -> None:
        self._fd, self.raw, self._drawn = fd, "", asyncio.Event()
        asyncio.get_running_loop().add_reader(fd, self._read)

    def _read(self) -> None:
        self.raw += os.read(self._fd, 65536).decode()
        self._drawn.set()

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    @property
    def text(self) -> str:
        return _SEQUENCE.sub("", self.raw).replace("\r", "")

    async def drawn(self, text: str, count: int = 1) -> None:
        await self._until(lambda: self.text.count(text) >= count)

    async def said(self, text: str) -> None:
        """The same wherever its lines break."""
        await self._until(lambda: text in " ".join(self.text.split()))

    async def _until(self, found: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not found():
                self._drawn.clear()
                await self._drawn.wait()


class Room:
    """A chat service, its journals, and somebody at the terminal."""

    def __init__(self, journal, chunks, terminal: Terminal) -> None:
        self.journal, self.chunks, self.terminal = journal, chunks, terminal

    async def heard(self, text: str):
        found = await self.journal.wait_for(lambda r: r.kind == "ChatAfferent" and r.entry.text == text, timeout=60)
        return found.id

    async def stream(
        self, prompt: str, *pieces: str, completed: bool = True, stream: str = "s", thought: bool = False
    ) -> None:
        for index, piece in enumerate(pieces):
            chunk = ChatChunk(stream=stream, index=index, text=piece, thought=thought)
            await self.chunks.append(chunk, session="console", correlation_id=prompt)
        if completed:
            await self.chunks.append(ChatStreamCompleted(stream=stream), session="console", correlation_id=prompt)

    async def act(self, activity: str, text: str, tool_name: str = "") -> None:
        entry = ChatActivity(activity=activity, text=text, tool_name=tool_name)
        await self.journal.append(entry, session="console")

    async def say(self, prompt: str, text: str) -> None:
        draft = ChatEfferentDraft(text=text, sender="hearth")
        await self.journal.append(draft, session="console", correlation_id=prompt)


@pytest.fixture
def room(tmp_path):
    """Opens a console on a terminal of its own; each time is a start with the same history and journals."""
    store = MemoryStore()

    @asynccontextmanager
    async def open_room():
        journal = await store.open("chat", CHAT.registry())
        chunks = await store.open("chat-chunks", CHAT.registry(short_lived=True), short_lived=True)
        ours, theirs = pty.openpty()
        tty.setraw(theirs)
        with os.fdopen(theirs, "r+b", buffering=0) as _, os.fdopen(os.dup(theirs), "w") as stream:
            output = Vt100_Output(stream, lambda: Size(rows=24, columns=80), enable_cpr=False)
            with create_app_session(Vt100Input(stream), output):
                terminal = Terminal(ours)
                options = ConsoleOptions(history=str(tmp_path / ".coven" / "console.history"))
                console = open_console(options, "chat", stdin=stream, stdout=stream)
                service = ChatService("chat", journal, console, owner="test", chunk_journal=chunks)
                running = asyncio.create_task(service.run(lambda: None))
                try:
                    await terminal.drawn("you>")
                    yield Room(journal, chunks, terminal)
                finally:
                    running.cancel()
                    await asyncio.wait([running])
                    asyncio.get_running_loop().remove_reader(ours)
        os.close(ours)

    return open_room


async def test_text_stands_above_the_prompt_while_it_is_written_and_is_not_printed_again(room):
    async with room() as opened:
        opened.terminal.type("hello\r")
        prompt = await opened.heard("hello")
        await opened.stream(prompt, "One line.\nAnd a li", completed=False)
        await opened.terminal.drawn("And a li")
        await opened.say(prompt, "One line.\nAnd a line that ends.")
        await opened.terminal.drawn("And a line that ends.")
        opened.terminal.type("next\r")
        await opened.heard("next")
    assert opened.terminal.text.count("One line.") == 1
    assert opened.terminal.text.count("that ends.") == 1


async def test_a_thought_that_is_being_written_is_not_printed_and_does_not_disturb_the_answer(room):
    async with room() as opened:
        opened.terminal.type("hello\r")
        prompt = await opened.heard("hello")
        await opened.stream(prompt, "A secret thought.\n", completed=False, stream="s.thought", thought=True)
        await opened.stream(prompt, "One line.\nAnd a li", completed=False)
        await opened.terminal.drawn("And a li")
        await opened.stream(prompt, "Another secret.\n", stream="s.thought2", thought=True)
        await opened.say(prompt, "One line.\nAnd a line that ends.")
        await opened.terminal.drawn("And a line that ends.")
    assert "secret" not in opened.terminal.text
    assert opened.terminal.text.count("One line.") == 1


async def test_what_comes_without_a_stream_is_printed_with_its_sender(room):
    async with room() as opened:
        await opened.say("nothing", "By the way.")
        await opened.terminal.drawn("hearth> By the way.")


async def test_a_person_can_type_while_an_answer_is_written(room):
    async with room() as opened:
        await opened.stream("p", "Let me th", completed=False)
        await opened.terminal.drawn("Let me th")
        opened.terminal.type("stop\r")
        await opened.heard("stop")


async def test_what_was_typed_before_comes_back_at_the_next_start_and_is_for_its_owner_alone(room, tmp_path):
    async with room() as opened:
        opened.terminal.type("remember this\r")
        await opened.heard("remember this")
        await opened.terminal.drawn("you>", 2)
    async with room() as opened:
        opened.terminal.type("\x1b[A")
        await opened.terminal.drawn("remember this")
        opened.terminal.type(" well\r")
        await opened.heard("remember this well")
    mode = stat.S_IMODE((tmp_path / ".coven" / "console.history").stat().st_mode)
    assert mode == 0o600


@pytest.mark.parametrize("keys", ["\x1b\r", "\\\r"], ids=["Alt-Enter", "backslash"])
async def test_a_message_may_have_more_than_one_line(room, keys):
    async with room() as opened:
        opened.terminal.type(f"one{keys}two\r")
        await opened.heard("one\ntwo")


async def test_a_question_becomes_the_prompt_and_the_beginning_of_a_choice_answers_it(room):
    async with room() as opened:
        question = ChatQuestion(correlation_id="q", question="May I write?", choices=("yes", "no"))
        await opened.journal.append(question, session="console", id="asked", correlation_id="q")
        await opened.terminal.drawn("May I write? (yes/no)")
        await opened.terminal.drawn("yes/no>")
        opened.terminal.type("y\r")
        answered = await opened.journal.wait_for(lambda r: r.kind == "ChatAnswer", timeout=60)
        assert (answered.entry.correlation_id, answered.entry.answer) == ("q", "yes")
        await opened.terminal.drawn("you>", 2)


async def test_a_message_beside_an_open_question_is_said_to_be_one(room):
    async with room() as opened:
        question = ChatQuestion(correlation_id="q", question="May I write?", choices=("yes", "no"))
        await opened.journal.append(question, session="console")
        await opened.terminal.drawn("yes/no>")
        opened.terminal.type("perhaps\r")
        await opened.heard("perhaps")
        await opened.terminal.drawn("Sent as a message. yes or no answers the question that is open.")
        await opened.terminal.drawn("yes/no>", 2)


async def test_what_the_console_says_fits_into_eighty_columns(room):
    assert max(map(len, HELP.splitlines())) < 80
    async with room() as opened:
        opened.terminal.type("/attach " + "a/" * 30 + "nothing.txt\r")
        await opened.terminal.drawn("not attached:\na/a/")


async def test_no_message_can_drive_the_terminal(room):
    async with room() as opened:
        await opened.stream("p", "\x1b[31mred\x07", completed=False)
        await opened.terminal.drawn("[31mred")
        assert "\x1b[31m" not in opened.terminal.raw


def test_style_is_left_out_where_nobody_wants_it():
    assert colours({"TERM": "xterm"})
    assert colours({"TERM": "xterm", "NO_COLOR": ""})
    assert not colours({"TERM": "xterm", "NO_COLOR": "1"})
    assert not colours({"TERM": "dumb"})


async def test_calls_and_what_failed_of_them_are_a_line_each_between_the_texts(room):
    async with room() as opened:
        opened.terminal.type("hello\r")
        prompt = await opened.heard("hello")
        await opened.stream(prompt, "Let me look.", stream="first")
        await opened.terminal.drawn("Let me look.")
        await opened.act("thought", "a secret thought")
        await opened.act("call", '{"path":"notes.md","limit":3}', "fs.read_text")
        await opened.act("result", "a long result")
        await opened.terminal.drawn("  fs.read_text notes.md 3\n")
        await opened.act("fault", "denied: no\nway")
        await opened.terminal.drawn("  failed: denied: no way\n")
        await opened.stream(prompt, "It is not there.", stream="second")
        await opened.terminal.drawn("It is not there.")
        await opened.say(prompt, "It is not there.")
        opened.terminal.type("next\r")
        await opened.heard("next")
    assert opened.terminal.text.index("agents> Let me look.\n") < opened.terminal.text.index("fs.read_text")
    assert "secret" not in opened.terminal.text
    assert "a long result" not in opened.terminal.text


def test_an_activity_on_one_line_drives_no_terminal_and_fits_it():
    call = ChatActivity(activity="call", text='{"text":"\\u001b[2J' + "x" * 200 + '"}', tool_name="fs.write_text")
    line = one_line(call, 60)
    assert line is not None
    assert line.startswith("  fs.write_text [2Jxxx")
    assert line.endswith("x…")
    assert len(line) < 60


async def sessions(opened, *texts: str) -> list[str]:
    """Say these; gives the session of each."""
    found: list[str] = []
    for text in texts:
        opened.terminal.type(f"{text}\r")
        record = await opened.journal.wait_for(
            lambda r, text=text: r.kind == "ChatAfferent" and r.entry.text == text, timeout=60
        )
        found.append(record.session)
    return found


async def test_fork_goes_on_from_an_earlier_message_and_is_answered_in_the_same_place(room):
    async with room() as opened:
        await sessions(opened, "one", "two")
        opened.terminal.type("/fork 1 another two\r")
        await opened.terminal.drawn("This conversation goes on from 1 message back")
        prompt = await opened.heard("another two")
        forked = (await opened.journal.wait_for(lambda r: r.kind == "ChatForked", timeout=60)).session
        assert (await sessions(opened, "three")) == [forked]
        draft = ChatEfferentDraft(text="An answer.", sender="hearth")
        await opened.journal.append(draft, session=forked, correlation_id=prompt)
        await opened.terminal.drawn("hearth> An answer.")
        await opened.journal.append(
            ChatQuestion(correlation_id="q", question="Sure?", choices=("yes", "no")), session=forked
        )
        await opened.terminal.drawn("yes/no>")
        opened.terminal.type("yes\r")
        answer = await opened.journal.wait_for(lambda r: r.kind == "ChatAnswer", timeout=60)
        assert answer.session == forked
        opened.terminal.type("/fork 9\r")
        await opened.terminal.drawn("not forked: this conversation has 3 messages, so it cannot go back 9")
    async with room() as opened:
        assert await sessions(opened, "four") == [forked]


async def test_files_go_with_the_next_message_and_those_of_an_answer_are_named(room, tmp_path):
    png = b"\x89PNG\r\n\x1a\n" + bytes(2_000_000)
    (tmp_path / "chart.png").write_bytes(png)
    os.mkfifo(tmp_path / "pipe")
    async with room() as at:
        for wrong, reason in (("", "name a file"), (str(tmp_path / "none.png"), "No such file"), (str(tmp_path), "")):
            at.terminal.type(f"/attach {wrong}\r")
            await at.terminal.said(f"not attached: {wrong}")
            await at.terminal.said(reason)
        at.terminal.type(f"/attach {tmp_path / 'pipe'}\r")
        await at.terminal.said("it is no file")
        at.terminal.type(f"/attach {tmp_path / 'chart.png'}\r")
        await at.terminal.said("goes with your next message")
        at.terminal.type("what is this?\r")
        prompt = await at.heard("what is this?\n\n[attached: chart.png, image/png, 2,000,008 bytes]")
        (record,) = [each async for each in at.journal.read(kinds=["ChatAfferent"])]
        assert [each.body for each in record.entry.attachments] == [png]
        report = Attachment("report.pdf", "application/pdf", b"%PDF-")
        draft = ChatEfferentDraft(text="here", sender="hearth", attachments=(report,))
        await at.journal.append(draft, session="console", correlation_id=prompt)
        await at.terminal.drawn("[attached: report.pdf, application/pdf, 5 bytes]")
        at.terminal.type("and this?\r")
        await at.heard("and this?")


async def test_reset_begins_a_conversation_that_knows_nothing_of_the_last_one(room):
    async with room() as opened:
        (first,) = await sessions(opened, "one")
        opened.terminal.type("/reset\r")
        await opened.terminal.drawn("A new conversation begins here.")
        (second,) = await sessions(opened, "two")
        assert first == "console" != second
