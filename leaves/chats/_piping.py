"""The console of a pipe: each line is a prompt, and standard output holds the answers and nothing else."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import TextIO

from branches.chat import ChatEfferent
from branches.chat.entries import ChatAnswer
from branches.chat.leaf import ChatPort
from branches.service import Finished
from journals import Record, random_id
from leaves.chats._terminal import LineReader, visible, write
from leaves.chats.console import Console, ConsoleOptions, Typed, fitting, told


class PipedConsole(Console):
    """The next line is read when this one is answered; after the last answer the outside is finished."""

    def __init__(self, options: ConsoleOptions, name: str, stdin: TextIO | None, stdout: TextIO | None) -> None:
        super().__init__(options, name, stdin, stdout)
        self._lines = LineReader(stdin.fileno()) if stdin is not None else None
        self._answered: set[str] = set()
        self._unanswered: set[str] = set()
        """What had no answer when what was typed answered a question; the next life of the service waits for it too."""
        self._arrived = asyncio.Event()

    async def run(self, port: ChatPort, ready: Callable[[], None]) -> None:
        """See `ChatLeaf.run`."""
        ready()
        while self._lines is not None:
            if self._typed is None:
                line = await self._lines.line()
                if line is None:
                    return
                if not line.strip():
                    continue
                self._typed = Typed(random_id(), line)
            waiting = await self._say(port, self._typed)
            while waiting and waiting.isdisjoint(self._answered):
                self._arrived.clear()
                if self._questions:
                    if not await self._answer(self._lines, port):
                        return
                else:
                    await self._arrived.wait()
            self._answered.clear()
            self._unanswered.clear()
            self._typed = None

    async def _say(self, port: ChatPort, typed: Typed) -> set[str]:
        """Record what was typed; gives the ids of the messages of which one has its answer when it has been heard.

        What follows from the answer to a question of an earlier start belongs to a message that was said then. Which
        one, the question need not know: they are answered one after the other, and so the next answer is that one's.
        """
        asked = self._questions[0] if self._questions else None
        if asked is not None and not self._unanswered:
            self._unanswered = await port.unanswered(asked.session)
        sent = await self._send(port, typed)
        if sent is None or not isinstance(sent.entry, ChatAnswer):
            return set() if sent is None else {sent.id}
        if asked is not None:
            self._heard(asked, sent.entry.answer)
        return self._unanswered

    def _heard(self, asked: Record[ChatEfferent], answer: str) -> None:
        """A question has this answer: where it was about the answer that is waited for, a no is the end of that."""
        if asked.correlation_id is not None and answer not in asked.entry.choices[:1]:
            self._answered.add(asked.correlation_id)

    async def _answer(self, lines: LineReader, port: ChatPort) -> bool:
        """Let the next line answer the open question; False at the end of the input, and the question stays open."""
        line = await lines.line()
        if line is None:
            print("a question is open; `coven run` asks it again", file=sys.stderr, flush=True)
            return False
        if not self._may_answer(self._questions[0].entry):
            return True
        asked = self._questions.popleft()
        answer = fitting(line, asked.entry.choices) or line.strip()
        await port.answer(asked.session, asked.entry.question or "", answer, self._options.sender, random_id())
        self._heard(asked, answer)
        return True

    async def _print(self, message: Record[ChatEfferent]) -> None:
        if self._stdout is None:
            raise Finished("standard output is closed")
        text = visible(told(message.entry)) if self._stdout.isatty() else told(message.entry)
        try:
            await write(self._stdout.fileno(), f"{text}\n".encode(self._stdout.encoding or "utf-8", "replace"))
        except BrokenPipeError:
            raise Finished("nobody reads standard output any more") from None
        if message.correlation_id is not None and message.entry.question is None:
            self._answered.add(message.correlation_id)
        self._arrived.set()
