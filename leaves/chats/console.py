"""The console: a conversation on this terminal, or through a pipe."""

from __future__ import annotations

import errno
import mimetypes
import os
import stat
import sys
from collections import deque
from collections.abc import Callable
from typing import Annotated, NamedTuple, TextIO

import msgspec
from msgspec import Meta

from branches.attachment import FILE_BYTES, TEXT_CHARS, Attachment, File, is_worth_reading
from branches.chat import ChatEfferent
from branches.chat.leaf import ChatPort, DeliveryFailed
from branches.chat.sessions import conversation_of
from journals import Entry, InvalidEntry, Record


class ConsoleOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who speaks here, what the one conversation of the console is called, and where it keeps what was typed."""

    sender: Annotated[str, Meta(description="the name under which this person speaks")] = "you"
    session: Annotated[str, Meta(min_length=1, max_length=100, description="the name of its one conversation")] = (
        "console"
    )
    history: (
        Annotated[str, Meta(min_length=1, description="the file of what was typed on a terminal; null keeps none")]
        | None
    ) = ".coven/console.history"


class Typed(NamedTuple):
    """Something that was typed, and the id that it has however often it is tried to record it."""

    id: str
    text: str
    images: tuple[Attachment, ...] = ()


class Console:
    """The chat leaf of standard input and output; `open_console` gives the one for a terminal or for a pipe.

    Delivery is at least once: an answer that was printed just before a crash is printed again.
    """

    interactive = False
    """Whether a person sits at both ends."""

    def __init__(self, options: ConsoleOptions, name: str, stdin: TextIO | None, stdout: TextIO | None) -> None:
        """The streams are None where the process was started with them closed."""
        self._options, self._name = options, name
        self._stdin, self._stdout = stdin, stdout
        self._typed: Typed | None = None
        self._questions: deque[Record[ChatEfferent]] = deque()

    def __repr__(self) -> str:
        return f"<Console {self._name} {'terminal' if self.interactive else 'pipe'} session={self._options.session}>"

    @property
    def session(self) -> str:
        """The name of its one conversation."""
        return self._options.session

    def is_here(self, session: str) -> bool:
        """Whether a session is one of this conversation's."""
        return session == self.session or conversation_of(session) == self.session

    async def run(self, port: ChatPort, ready: Callable[[], None]) -> None:
        """See `ChatLeaf.run`. Run again after a failure, it first sends what it could not send before."""
        raise NotImplementedError

    async def deliver(self, message: Record[ChatEfferent]) -> str | None:
        """Print the message.

        Raises `DeliveryFailed` for a conversation that is not this one, `Finished` when nobody reads any more: what
        was not printed is printed at the next start.
        """
        if not self.is_here(message.session):
            raise DeliveryFailed(
                f"the console has one conversation, {self._options.session!r}; this message is for {message.session!r}"
            )
        question = message.entry.question
        if question is not None and all(question != open.entry.question for open in self._questions):
            self._questions.append(message)
        await self._print(message)
        return None

    async def remind(self, message: Record[ChatEfferent]) -> None:
        """See `RemindingLeaf.remind`: it is shown again, and the next line that fits answers it."""
        await self.deliver(message)

    def _may_answer(self, asked: ChatEfferent) -> bool:
        """Whether who speaks here may answer; says who may instead."""
        if not asked.approvers or self._options.sender in asked.approvers:
            return True
        print(
            f"only {', '.join(asked.approvers)} may answer this, not {self._options.sender}",
            file=sys.stderr,
            flush=True,
        )
        return False

    async def _print(self, message: Record[ChatEfferent]) -> None:
        raise NotImplementedError

    async def _send(self, port: ChatPort, typed: Typed) -> Record[Entry] | None:
        """Record what was typed, once, however often it has to be tried; says why when it can never be recorded.

        It answers the oldest open question, if it fits; anything else is a message. Gives the record of either.
        """
        self._typed = typed
        try:
            if self._questions and (answer := fitting(typed.text, self._questions[0].entry.choices)) is not None:
                asked = self._questions[0]
                if not self._may_answer(asked.entry):
                    return None
                by, question = self._options.sender, asked.entry.question or ""
                answered = await port.answer(asked.session, question, answer, by, typed.id)
                self._questions.popleft()
                return answered
            return await port.receive(self._options.session, self._options.sender, typed.text, typed.id, typed.images)
        except InvalidEntry as error:
            print(f"not sent: {error}", file=sys.stderr, flush=True)
            return None


def open_console(
    options: ConsoleOptions, name: str, *, stdin: TextIO | None = None, stdout: TextIO | None = None
) -> Console:
    """The console of these streams, this process's own where none are given: with a prompt if both are a terminal."""
    stdin, stdout = stdin or sys.stdin, stdout or sys.stdout
    if stdin is not None and stdout is not None and stdin.isatty() and stdout.isatty():  # pyright: ignore[reportUnnecessaryComparison] - they are, when closed at the start
        from leaves.chats._prompting import PromptingConsole

        return PromptingConsole(options, name, stdin, stdout)
    from leaves.chats._piping import PipedConsole

    return PipedConsole(options, name, stdin, stdout)


def told(message: ChatEfferent) -> str:
    """The message, with the answers that a question takes, and the names of its files."""
    text = f"{message.text} ({'/'.join(message.choices)})" if message.choices else message.text
    files = (f"[attached: {each.name}, {each.media_type}, {len(each.body):,} bytes]" for each in message.attachments)
    return "\n".join((text, *files))


def read_file(path: str) -> File:
    """A file of this machine, to go with a message; of one that is too large only what it says of itself.

    Raises `OSError`.
    """
    # Not blocking, so that a pipe without a writer cannot hold us; what is no file is then refused.
    with open(os.open(os.path.expanduser(path), os.O_RDONLY | os.O_NONBLOCK), "rb") as opened:
        status = os.fstat(opened.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        file = File(path, mimetypes.guess_type(path, strict=False)[0], status.st_size)
        return file._replace(body=opened.read(FILE_BYTES)) if is_worth_reading(file, TEXT_CHARS) else file


def fitting(text: str, choices: tuple[str, ...]) -> str | None:
    """What the text answers: one of the choices, or the beginning of just one; any text where there are none."""
    typed = text.strip().lower()
    if not choices:
        return text.strip() or None
    found = [choice for choice in choices if typed and choice.lower().startswith(typed)]
    exact = [choice for choice in found if choice.lower() == typed]
    return exact[0] if exact else found[0] if len(found) == 1 else None
