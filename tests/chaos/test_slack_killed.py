"""Kills of a coven while it answers on Slack, piece by piece: one prompt, one answer, and no half one as the last.

It dies at a journal operation of the chat, or just after Slack has done what it asked for and before it hears of that.
The short form kills at a few places that matter, `pytest -m chaos` at all of them.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from branches.chat import CHAT
from branches.chat.entries import ChatAfferent, ChatDelivered
from branches.chat.live import CURSOR
from coven.testing.crashes import FaultPoint, killed_at, reached_points
from coven.testing.slack import Channel, SlackServer
from journals import EmbeddedServer, JetStreamStore, Journal

HERE = Path(__file__).parent
_QUESTIONS = ("first", "second")
_REQUESTS = ("users.info", "chat.postMessage", "chat.update")
_numbers = count(1)


class Deployment:
    """One coven in a process of its own, which is killed again and again."""

    def __init__(self, folder: Path, server: EmbeddedServer, slack: SlackServer, chat: Journal) -> None:
        self._folder, self._server, self.slack, self.chat = folder, server, slack, chat
        self.room: Channel = slack.world.general
        self.process: asyncio.subprocess.Process | None = None
        self.barrier = 0
        self._dead = asyncio.Event()

    async def start(self, **environment: str) -> None:
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "from coven.cli import main; main()", "run"),
            cwd=self._folder,
            env={
                **os.environ,
                "PROBE_NATS": self._server.url,
                "PROBE_TOKEN": self._server.token,
                "PROBE_BARRIER": str(self.barrier),
                "SLACK_BOT_TOKEN": self.slack.bot_token,
                "SLACK_APP_TOKEN": self.slack.app_token,
                **environment,
            },
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )

    async def ended(self) -> int:
        assert self.process is not None
        async with asyncio.timeout(60):
            return await self.process.wait()

    async def stop(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.ended()

    async def ask(self) -> None:
        """Two questions at once, in a room of their own."""
        self.room = self.slack.world.channel(f"room {next(_numbers)}")
        self._dead.clear()
        for text in _QUESTIONS:
            await self.slack.say(text, self.room)

    async def serve(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Let the crystal go on as soon as people read what it has written, or the coven was killed."""
        world, room = self.slack.world, self.room
        waits = [
            asyncio.ensure_future(self.slack.until(lambda: any(CURSOR in m.text for m in world.of_bot(room)), 60)),
            asyncio.ensure_future(self._dead.wait()),
        ]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        writer.close()

    async def answered(self, where: str) -> None:
        """Both answers are there, whole, once and in order, and there are two prompts."""
        delivered: set[str] = set()
        async with asyncio.timeout(60):
            async for record in self.chat.tail(0, kinds=[ChatDelivered.kind()], session=f"slack:{self.room.id}"):
                delivered.add(record.id)
                if len(delivered) == len(_QUESTIONS):
                    break
        await self.slack.until(lambda: not self.slack.unacknowledged, 60)
        said = [message.text for message in self.slack.world.of_bot(self.room)]
        assert said == [f"I have heard this. You said: Ada: {text}. That is all." for text in _QUESTIONS], where
        prompts = self.chat.read(session=f"slack:{self.room.id}", kinds=[ChatAfferent.kind()])
        assert len([prompt async for prompt in prompts]) == len(_QUESTIONS), where

    async def survives(self, where: str, *, away: bool = False, **environment: str) -> None:
        """It is killed there, started again, and has answered as if nothing had been.

        With `away` people have asked before it is there, and Slack has given up telling it.
        """
        if away:
            await self.ask()
            self.slack.give_up()
        await self.start(**environment)
        if not away:
            await self.ask()
        assert await self.ended() == -signal.SIGKILL, where
        self._dead.set()
        self.slack.hold = None
        await self.start()
        try:
            await self.answered(where)
        except TimeoutError as error:
            said = [message.text for message in self.slack.world.of_bot(self.room)]
            kinds = [record.kind async for record in self.chat.read(session=f"slack:{self.room.id}")]
            raise AssertionError(f"{where}: said {said}; {kinds}; {self.slack}") from error
        finally:
            await self.stop()

    async def survives_behind(self, method: str, number: int, *, away: bool = False) -> None:
        """It is killed when Slack has done the n-th request of a method, and has not answered it."""
        left = number

        async def hold(done: str) -> None:
            nonlocal left
            if done == method:
                left -= 1
                if left == 0 and self.process is not None:
                    self.process.kill()

        self.slack.hold = hold
        await self.survives(f"killed behind {method} {number}", away=away)


@asynccontextmanager
async def deployed(folder: Path, server: EmbeddedServer) -> AsyncGenerator[Deployment]:
    name = f"slackkilled{os.getpid()}x{next(_numbers)}"
    shutil.copy(HERE / "streaming.py", folder)
    async with SlackServer() as slack, await JetStreamStore.connect(server.url, name, token=server.token) as store:
        text = (HERE / "streamed.yaml").read_text().replace("coven: crash", f"coven: {name}")
        text = text.replace("leaf: discord", "leaf: slack").replace(
            "api: DISCORD, commands: false", f"api: {slack.api}"
        )
        (folder / "coven.yaml").write_text(text)
        coven = Deployment(folder, server, slack, await store.open("chat", CHAT.registry()))
        barrier = await asyncio.start_server(coven.serve, "127.0.0.1", 0)
        coven.barrier = barrier.sockets[0].getsockname()[1]
        try:
            yield coven
        finally:
            await coven.stop()
            barrier.close()
        assert slack.mistakes == []


async def passed(coven: Deployment, trace: Path) -> list[FaultPoint]:
    """The points of the chat's journal that it passes when nobody kills it."""
    await coven.start(COVEN_FAULT_TRACE=str(trace))
    await coven.ask()
    await coven.answered("nobody kills it")
    await coven.stop()
    return [point for point in reached_points(trace) if point.name.startswith("chat.append.Chat")]


async def test_a_coven_that_is_killed_at_places_that_matter_answers_once(tmp_path: Path, nats_server: EmbeddedServer):
    async with deployed(tmp_path, nats_server) as coven:
        for name in ("chat.append.ChatAfferent.after", "chat.append.ChatDelivered.before"):
            point = FaultPoint(name, 1)
            await coven.survives(f"killed at {point}", **killed_at(point))
        for method in ("chat.postMessage", "chat.update"):
            await coven.survives_behind(method, 1)


async def test_a_coven_that_is_killed_while_it_catches_up_answers_once(tmp_path: Path, nats_server: EmbeddedServer):
    async with deployed(tmp_path, nats_server) as coven:
        for number in (1, 2):
            point = FaultPoint("chat.append.ChatAfferent.after", number)
            await coven.survives(f"killed at {point}, catching up", away=True, **killed_at(point))
        await coven.survives_behind("conversations.history", 1, away=True)


@pytest.mark.chaos
@pytest.mark.timeout(1800)
async def test_a_coven_that_is_killed_anywhere_answers_once(tmp_path: Path, nats_server: EmbeddedServer):
    async with deployed(tmp_path, nats_server) as coven:
        for point in await passed(coven, tmp_path / "trace"):
            await coven.survives(f"killed at {point}", **killed_at(point))
        for method in _REQUESTS:
            for number in (1, 2) if method != "users.info" else (1,):
                await coven.survives_behind(method, number)
