"""The console of a terminal: a prompt, and above it what is said, while it is being written."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from branches.attachment import File, take
from branches.chat import ChatChunk, ChatEfferent, ChatStreamCompleted
from branches.chat.entries import ChatActivity, ChatAfferent
from branches.chat.forks import Wish, wish
from branches.chat.leaf import ChatPort, ForkRefused
from branches.wrapped import wrapped
from journals import Record, random_id
from leaves.chats._terminal import colours, visible
from leaves.chats._writing import Writing
from leaves.chats.console import Console, ConsoleOptions, Typed, read_file, told

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

PROMPT = "you> "
_SENDER = "agents"
"""Who writes, until a message has said it: a piece of one does not. It is what an agents instance is usually called."""
HELP = """\
Type a message and press Enter; pasted lines stay one message.
  Alt-Enter, or \\ at the end of a line and Enter: go on in a new line
  Up, Ctrl-R: what was typed before
  /attach FILE    send a file with the next message: an image, or text
  /fork           go on in a copy of this conversation, which stays as it is
  /fork N [text]  from before your last N messages, saying this instead
  /reset          begin a conversation that knows nothing of this one
  /help           show this
  /quit           stop everything in order, as Ctrl-D and Ctrl-C do
Starting again goes on with this conversation.
`coven journal tail chat` in another terminal shows what is recorded.
"""


class PromptingConsole(Console):
    """Prompts a person, also while an answer is being written above the prompt."""

    interactive = True

    def __init__(self, options: ConsoleOptions, name: str, stdin: TextIO, stdout: TextIO) -> None:
        super().__init__(options, name, stdin, stdout)
        self._colour = colours(os.environ)
        self._writing = Writing()
        self._session: PromptSession[str] | None = None
        self._sender = _SENDER
        self._files: list[File] = []

    async def run(self, port: ChatPort, ready: Callable[[], None]) -> None:
        """See `ChatLeaf.run`."""
        from prompt_toolkit import PromptSession
        from prompt_toolkit.patch_stdout import patch_stdout

        self._session = PromptSession(history=_history(self._options.history), key_bindings=_keys())
        with patch_stdout(raw=True):  # logs, which others print
            ready()
            while True:
                if self._typed is not None:
                    sent = await self._send(port, self._typed)
                    self._typed = None
                    if self._questions and sent is not None and isinstance(sent.entry, ChatAfferent):
                        await self._say(f"Sent as a message. {self._wanted()} answers the question that is open.")
                try:
                    text = await self._session.prompt_async(self._message, handle_sigint=False)
                except (EOFError, KeyboardInterrupt):
                    return
                match text.strip():
                    case "":
                        pass
                    case "/quit" | "/exit":
                        return
                    case "/help":
                        await self._put(HELP)
                    case "/reset":
                        await port.begin_anew(self.session, random_id())
                        await self._say("A new conversation begins here.\n")
                    case word if word.split(maxsplit=1)[0] == "/fork":
                        await self._fork(port, wish(word.removeprefix("/fork")))
                    case word if word.partition(" ")[0] == "/attach":
                        await self._attach(word.partition(" ")[2].strip())
                    case word if word.startswith("/") and word[1:].isalpha():
                        await self._say(f"{word} is no command, and was not sent; /help lists the commands")
                    case _:
                        self._typed = self._message_of(text)

    async def _say(self, text: str) -> None:
        """Put something that the console itself says above the prompt, in lines that fit."""
        await self._put(f"{wrapped(text, self._columns)}\n")

    async def _attach(self, path: str) -> None:
        """Keep a file for the next message."""
        try:
            file = read_file(path)
        except (OSError, ValueError) as error:
            await self._say(f"not attached: {visible(path) or 'name a file'}: {getattr(error, 'strerror', error)}")
            return
        self._files.append(file)
        await self._say(f"{visible(path)} goes with your next message.")

    def _message_of(self, text: str) -> Typed:
        taken = take(self._files)
        self._files = []
        return Typed(random_id(), "\n\n".join((text, *taken.told)), taken.images)

    async def _fork(self, port: ChatPort, wanted: Wish) -> None:
        """Go on from an earlier moment, with this text where one is given."""
        try:
            await port.fork(self.session, random_id(), back=wanted.back)
        except ForkRefused as refused:
            await self._say(f"not forked: {refused}")
            return
        await self._say(f"This conversation goes on from {wanted.place}, and what was said since stays recorded.\n")
        self._typed = Typed(random_id(), wanted.text) if wanted.text else None

    async def show(self, chunk: Record[ChatChunk | ChatStreamCompleted]) -> None:
        """See `StreamingLeaf.show`. A stream that has ended waits for its message, which ends the line."""
        entry = chunk.entry
        if not self.is_here(chunk.session) or not isinstance(entry, ChatChunk):
            return
        lines = self._writing.add(
            entry.stream, chunk.correlation_id, visible(entry.text), f"{self._sender}> ", self._room()
        )
        if lines:
            await self._put(lines)
        elif self._session is not None:
            self._session.app.invalidate()

    async def show_activity(self, activity: Record[ChatActivity]) -> None:
        """See `ActiveLeaf.show_activity`: a faint line for each call, and for each that failed."""
        if not self.is_here(activity.session):
            return
        line = one_line(activity.entry, self._columns)
        if line is not None:
            before = self._writing.rest() if activity.entry.activity == "call" else ""
            await self._put(f"{before}\x1b[2m{line}\x1b[0m\n" if self._colour else f"{before}{line}\n")

    async def _print(self, message: Record[ChatEfferent]) -> None:
        text = visible(told(message.entry))
        self._sender = visible(message.entry.sender) or self._sender
        lines = self._writing.finish(message.correlation_id, text) if message.entry.question is None else None
        if lines is None:
            lines = f"{self._writing.rest()}{self._styled(f'{self._sender}>')} {text}\n"
        await self._put(lines + "\n")

    async def _put(self, lines: str) -> None:
        """Put whole lines above the prompt, for good."""
        from prompt_toolkit.application import in_terminal

        async with in_terminal():
            if self._session is not None:
                output = self._session.app.output
                output.write_raw(lines)
                output.flush()

    def _styled(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self._colour else text

    def _wanted(self) -> str:
        """What the open question takes for an answer, in words."""
        *others, last = map(visible, self._questions[0].entry.choices or ("a text",))
        return f"{', '.join(others)} or {last}" if others else last

    def _message(self) -> StyleAndTextTuples:
        """What stands before the input: the line that is being written, and who is asked for what."""
        assert self._session is not None
        bold = "bold" if self._colour else ""
        live = self._writing.live
        above: StyleAndTextTuples = [("", f"{live}\n")] if live and not self._session.app.is_done else []
        if not self._questions:
            return [*above, (bold, PROMPT)]
        choices = self._questions[0].entry.choices
        return [*above, (bold, f"{'/'.join(map(visible, choices)) or 'your answer'}> ")]

    def _room(self) -> int:
        """How many characters may stand live: half of the terminal."""
        if self._session is None:
            return 1000
        size = self._session.app.output.get_size()
        return max(20, size.columns * (size.rows // 2))

    @property
    def _columns(self) -> int:
        return 80 if self._session is None else max(20, self._session.app.output.get_size().columns)


def one_line(activity: ChatActivity, columns: int) -> str | None:
    """A call with its arguments, or why one failed, on one line of so many columns; None for what is not shown."""
    if activity.activity == "call":
        line = f"  {activity.tool_name} {gist(activity.text)}"
    elif activity.activity == "fault":
        line = f"  failed: {activity.text}"
    else:
        return None
    line = " ".join(visible(line[: columns * 4]).split())
    return f"  {line}" if len(line) + 2 < columns else f"  {line[: columns - 4]}…"


def gist(arguments: str) -> str:
    """The values of JSON arguments; the text as it is where it is no object."""
    try:
        values = msgspec.json.decode(arguments, type=dict[str, Any])
    except msgspec.DecodeError:
        return arguments
    return " ".join(each if isinstance(each, str) else msgspec.json.encode(each).decode() for each in values.values())


def _keys() -> KeyBindings:
    """Enter sends; Alt-Enter, and Enter behind a backslash, begin a new line."""
    from prompt_toolkit.application import get_app
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    def unfinished() -> bool:
        document = get_app().current_buffer.document
        return document.is_cursor_at_the_end and document.text.endswith("\\")

    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    def go_on(event: KeyPressEvent) -> None:
        event.current_buffer.delete_before_cursor()
        event.current_buffer.insert_text("\n")

    keys.add("escape", "enter")(begin_line)
    keys.add("enter", filter=Condition(unfinished))(go_on)
    return keys


def _history(path: str | None) -> History:
    """What was typed at earlier starts, readable by its owner alone; kept in memory where no file can be written."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    if path is None:
        return InMemoryHistory()
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)
