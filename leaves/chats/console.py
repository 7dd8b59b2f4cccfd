"""The console: a conversation on this terminal, or through a pipe."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import unicodedata
from collections.abc import AsyncIterator, Callable
from typing import TextIO, TypeVar

import msgspec

from branches.chat import ChatAfferent, ChatEfferent
from branches.chat.leaf import ChatPort, DeliveryFailed
from branches.service import Finished
from journals import InvalidEntry, Record

PROMPT = "you> "
HELP = """\
Type a message and press Enter; pasted lines stay one message.
  /help   show this
  /quit   stop everything in order, as Ctrl-D and Ctrl-C do; starting again goes on with this conversation
In another terminal, `coven journal tail chat` shows what is recorded."""
_CHUNK = 65536

T = TypeVar("T")


class ConsoleOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who speaks here, and what the one conversation of the console is called."""

    sender: str = "you"
    session: str = "console"


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
        self._answered: set[str] = set()
        self._arrived = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Console {self._name} {'terminal' if self.interactive else 'pipe'} session={self._options.session}>"

    @property
    def interactive(self) -> bool:
        """Whether a person sits at both ends."""
        return all(stream is not None and stream.isatty() for stream in (self._stdin, self._stdout))

    async def run(self, port: ChatPort, ready: Callable[[], None]) -> None:
        """See `ChatLeaf.run`."""
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
        if self.interactive:
            sender = visible(message.entry.sender) or "coven"
            print(f"\x1b[1m{sender}>\x1b[0m {visible(message.entry.text)}\n")  # prompt_toolkit's own sys.stdout
            return None
        await self._write(message.entry.text)
        if message.correlation_id is not None:
            self._answered.add(message.correlation_id)
            self._arrived.set()
        return None

    async def _write(self, text: str) -> None:
        if self._stdout is None:
            raise Finished("standard output is closed")
        text = visible(text) if self._stdout.isatty() else text
        body = f"{text}\n".encode(self._stdout.encoding or "utf-8", "replace")
        fd = self._stdout.fileno()
        try:
            await in_thread(lambda: _write_all(fd, body))
        except BrokenPipeError:
            raise Finished("nobody reads standard output any more") from None

    async def _send(self, port: ChatPort, text: str) -> Record[ChatAfferent] | None:
        try:
            return await port.receive(self._options.session, self._options.sender, text)
        except InvalidEntry as error:
            print(f"not sent: {error}", file=sys.stderr, flush=True)
            return None

    async def _pipe(self, port: ChatPort, ready: Callable[[], None]) -> None:
        ready()
        if self._stdin is None:
            return
        async for line in read_lines(self._stdin.fileno()):
            prompt = await self._send(port, line) if line.strip() else None
            while prompt is not None and prompt.id not in self._answered:
                self._arrived.clear()
                await self._arrived.wait()
            self._answered.clear()

    async def _prompt(self, port: ChatPort, ready: Callable[[], None]) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.patch_stdout import patch_stdout

        session: PromptSession[str] = PromptSession()
        with patch_stdout(raw=True):
            ready()
            while True:
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
                        await self._send(port, text)


async def read_lines(fd: int) -> AsyncIterator[str]:
    """The lines of a file descriptor, read only when asked for; bytes that are no UTF-8 become U+FFFD."""
    rest = b""
    while chunk := await in_thread(lambda: os.read(fd, _CHUNK)):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace").rstrip("\r")
    if rest:
        yield rest.decode("utf-8", "replace").rstrip("\r")


def visible(text: str) -> str:
    """The text without control characters (line breaks and tabs stay), so that no answer can drive the terminal."""
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf") or c == "\u200d")


async def in_thread(work: Callable[[], T]) -> T:
    """Run something that may block for ever, such as reading a terminal; cancelling leaves it behind.

    The default executor would do, but joins its threads before the process may end.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if outcome.done():
            return
        if error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except OSError as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop was closed while we were blocked: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="console", daemon=True).start()
    return await outcome


def _write_all(fd: int, body: bytes) -> None:
    while body:
        body = body[os.write(fd, body) :]
