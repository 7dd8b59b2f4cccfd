"""The console: a conversation on this terminal, or through a pipe."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from typing import Annotated, NamedTuple, TextIO

import msgspec
from msgspec import Meta

from branches.chat import ChatAfferent, ChatEfferent
from branches.chat.leaf import ChatPort, DeliveryFailed
from branches.service import Finished
from journals import InvalidEntry, Record, random_id
from leaves.chats._terminal import LineReader, visible, write

PROMPT = "you> "
HELP = """\
Type a message and press Enter; pasted lines stay one message.
  /help   show this
  /quit   stop everything in order, as Ctrl-D and Ctrl-C do; starting again goes on with this conversation
In another terminal, `coven journal tail chat` shows what is recorded."""


class ConsoleOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who speaks here, and what the one conversation of the console is called."""

    sender: Annotated[str, Meta(description="the name under which this person speaks")] = "you"
    session: Annotated[str, Meta(min_length=1, max_length=100, description="the name of its one conversation")] = (
        "console"
    )


class _Typed(NamedTuple):
    id: str
    text: str


class Console:
    """The chat leaf of standard input and output.

    On a terminal it prompts. Otherwise each line of the input is a prompt: the next one is read when this one is
    answered, and after the last answer the outside is finished. Standard output then carries the answers, nothing
    else. Delivery is at least once: an answer that was printed just before a crash is printed again.
    """

    def __init__(
        self,
        options: ConsoleOptions,
        name: str,
        *,
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
    ) -> None:
        self._options, self._name = options, name
        self._stdin: TextIO | None = stdin or sys.stdin  # None when the process was started with it closed
        self._stdout: TextIO | None = stdout or sys.stdout
        self._lines = LineReader(self._stdin.fileno()) if self._stdin is not None and not self.interactive else None
        self._typed: _Typed | None = None
        self._answered: set[str] = set()
        self._arrived = asyncio.Event()
        self._questions: deque[Record[ChatEfferent]] = deque()

    def __repr__(self) -> str:
        return f"<Console {self._name} {'terminal' if self.interactive else 'pipe'} session={self._options.session}>"

    @property
    def interactive(self) -> bool:
        """Whether a person sits at both ends."""
        return all(stream is not None and stream.isatty() for stream in (self._stdin, self._stdout))

    @property
    def session(self) -> str:
        """The name of its one conversation."""
        return self._options.session

    async def run(self, port: ChatPort, ready: Callable[[], None]) -> None:
        """See `ChatLeaf.run`. Run again after a failure, it first sends what it could not send before."""
        await (self._prompt if self.interactive else self._pipe)(port, ready)

    async def deliver(self, message: Record[ChatEfferent]) -> str | None:
        """Print the message.

        Raises `DeliveryFailed` for a conversation that is not this one, `Finished` when nobody reads any more: what
        was not printed is printed at the next start.
        """
        if message.session != self._options.session:
            raise DeliveryFailed(
                f"the console has one conversation, {self._options.session!r}; this message is for {message.session!r}"
            )
        if message.entry.question is not None:
            self._questions.append(message)
        if self.interactive:
            sender = visible(message.entry.sender) or "coven"
            text = visible(_told(message.entry))
            print(f"\x1b[1m{sender}>\x1b[0m {text}\n")  # to prompt_toolkit's own sys.stdout
            return None
        await self._write(_told(message.entry))
        if message.correlation_id is not None:
            self._answered.add(message.correlation_id)
        self._arrived.set()
        return None

    async def remind(self, message: Record[ChatEfferent]) -> None:
        """See `RemindingLeaf.remind`: it is shown again, and the next line that fits answers it."""
        await self.deliver(message)

    async def _write(self, text: str) -> None:
        if self._stdout is None:
            raise Finished("standard output is closed")
        text = visible(text) if self._stdout.isatty() else text
        try:
            await write(self._stdout.fileno(), f"{text}\n".encode(self._stdout.encoding or "utf-8", "replace"))
        except BrokenPipeError:
            raise Finished("nobody reads standard output any more") from None

    async def _send(self, port: ChatPort, typed: _Typed) -> Record[ChatAfferent] | None:
        """Record what was typed, once, however often it has to be tried; says why when it can never be recorded.

        It answers the oldest open question, if it fits; anything else is a message, and gives its record.
        """
        self._typed = typed
        try:
            if self._questions and (answer := _fitting(typed.text, self._questions[0].entry.choices)) is not None:
                asked = self._questions.popleft().entry.question or ""
                await port.answer(self._options.session, asked, answer, self._options.sender, typed.id)
                return None
            return await port.receive(self._options.session, self._options.sender, typed.text, typed.id)
        except InvalidEntry as error:
            print(f"not sent: {error}", file=sys.stderr, flush=True)
            return None

    async def _pipe(self, port: ChatPort, ready: Callable[[], None]) -> None:
        ready()
        while self._lines is not None:
            if self._typed is None:
                line = await self._lines.line()
                if line is None:
                    return
                if not line.strip():
                    continue
                self._typed = _Typed(random_id(), line)
            sent = await self._send(port, self._typed)
            while sent is not None and sent.id not in self._answered:
                self._arrived.clear()
                if self._questions:
                    if not await self._answer_from_pipe(port):
                        return
                else:
                    await self._arrived.wait()
            self._answered.clear()
            self._typed = None

    async def _answer_from_pipe(self, port: ChatPort) -> bool:
        """Let the next line answer the open question; False at the end of the input, and the question stays open."""
        assert self._lines is not None
        line = await self._lines.line()
        if line is None:
            print("a question is open; `coven run` asks it again", file=sys.stderr, flush=True)
            return False
        asked = self._questions.popleft().entry
        answer = _fitting(line, asked.choices) or line.strip()
        await port.answer(self._options.session, asked.question or "", answer, self._options.sender, random_id())
        return True

    async def _prompt(self, port: ChatPort, ready: Callable[[], None]) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.patch_stdout import patch_stdout

        session: PromptSession[str] = PromptSession()
        with patch_stdout(raw=True):
            ready()
            while True:
                if self._typed is not None:
                    await self._send(port, self._typed)
                    self._typed = None
                try:
                    text = await session.prompt_async(PROMPT, handle_sigint=False)
                except (EOFError, KeyboardInterrupt):
                    return
                match text.strip():
                    case "":
                        pass
                    case "/quit" | "/exit":
                        return
                    case "/help":
                        print(HELP)
                    case word if word.startswith("/") and word[1:].isalpha():
                        print(f"{word} is no command, and was not sent; /help lists the commands")
                    case _:
                        self._typed = _Typed(random_id(), text)


def _told(message: ChatEfferent) -> str:
    """The message, with the answers that a question takes."""
    return f"{message.text} ({'/'.join(message.choices)})" if message.choices else message.text


def _fitting(text: str, choices: tuple[str, ...]) -> str | None:
    """What the text answers: one of the choices, or the beginning of just one; any text where there are none."""
    typed = text.strip().lower()
    if not choices:
        return text.strip() or None
    fitting = [choice for choice in choices if typed and choice.lower().startswith(typed)]
    exact = [choice for choice in fitting if choice.lower() == typed]
    return exact[0] if exact else fitting[0] if len(fitting) == 1 else None
