"""Kills of a service while it answers on Discord, piece by piece: one prompt, one answer, and no half one as the last.

Each service is a process of its own. The victim dies at a journal operation, or just after Discord has done what it
asked for; the others live on. The short form kills at a few places that matter, `pytest -m chaos` at all of them.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from branches.agents import AGENTS
from branches.chat import CHAT
from branches.chat.entries import ChatDelivered
from coven.testing.crashes import FaultPoint, killed_at, reached_points, story
from coven.testing.discord import Channel, DiscordServer, Message
from journals import EmbeddedServer, JetStreamStore, Journal
from leaves.chats.discord.outgoing import CURSOR

HERE = Path(__file__).parent
_KILLED = -signal.SIGKILL
_QUESTIONS = ("first", "second")
_numbers = count(1)
_SNOWFLAKE = re.compile(r"\b\d{17,20}\b")
_DIGEST = re.compile(r'"context":"[0-9a-f]+",')  # of what was said with its ids


class Deployment:
    """One coven in processes of its own, of which one is to be killed again and again."""

    def __init__(self, folder: Path, name: str, server: EmbeddedServer, discord: DiscordServer, victim: str) -> None:
        self._folder, self._name, self._server, self.discord, self.victim = folder, name, server, discord, victim
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self.room: Channel = discord.world.general
        self._dead = asyncio.Event()
        self.barrier = 0

    @property
    def pid(self) -> int:
        return self._running[self.victim].pid

    async def start(self, service: str, **environment: str) -> None:
        before = self.discord.identified
        self._running[service] = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "from coven.cli import main; main()", "run", "--only", service),
            cwd=self._folder,
            env={
                **os.environ,
                "PROBE_NATS": self._server.url,
                "PROBE_TOKEN": self._server.token,
                "PROBE_BARRIER": str(self.barrier),
                "DISCORD_TOKEN": self.discord.token,
                **environment,
            },
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        if service == "chat" and not environment.get("COVEN_FAULT"):  # with one, it may die before
            await self.discord.until(lambda: self.discord.identified > before, 60)

    async def stop(self, service: str) -> None:
        process = self._running.pop(service)
        if process.returncode is None:
            process.kill()
        async with asyncio.timeout(60):
            await process.wait()

    async def close(self) -> None:
        for service in list(self._running):
            await self.stop(service)

    async def died(self) -> None:
        """Wait until the victim has been killed."""
        async with asyncio.timeout(60):
            assert await self._running[self.victim].wait() == _KILLED
        self._dead.set()

    async def say(self) -> list[Message]:
        """Two questions, the second while the first is being answered."""
        self.room = self.discord.world.channel(f"room {next(_numbers)}")
        self._dead.clear()
        return [await self.discord.say(text, self.room) for text in _QUESTIONS]

    async def serve(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Let the crystal go on as soon as people read what it has written, or the victim is dead."""
        world, room = self.discord.world, self.room
        waits = [
            asyncio.ensure_future(self.discord.until(lambda: any(CURSOR in m.text for m in world.of_bot(room)), 60)),
            asyncio.ensure_future(self._dead.wait()),
        ]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        writer.close()

    async def finished(self, chat: Journal) -> None:
        """Wait until both answers of this room are delivered."""
        seen: set[str] = set()
        async with asyncio.timeout(60):
            async for record in chat.tail(0, kinds=[ChatDelivered.kind()], session=self.session):
                seen.add(record.id)
                if len(seen) == len(_QUESTIONS):
                    return

    @property
    def session(self) -> str:
        return f"discord:{self.room.id}"


@asynccontextmanager
async def deployed(
    folder: Path, server: EmbeddedServer, victim: str
) -> AsyncGenerator[tuple[Deployment, list[Journal]]]:
    name = f"streamed{os.getpid()}x{next(_numbers)}"
    shutil.copy(HERE / "streaming.py", folder)
    async with DiscordServer() as discord, await JetStreamStore.connect(server.url, name, token=server.token) as store:
        text = (HERE / "streamed.yaml").read_text()
        (folder / "coven.yaml").write_text(
            text.replace("coven: crash", f"coven: {name}").replace("DISCORD", discord.api)
        )
        coven = Deployment(folder, name, server, discord, victim)
        barrier = await asyncio.start_server(coven.serve, "127.0.0.1", 0)
        coven.barrier = barrier.sockets[0].getsockname()[1]
        try:
            for service in ("chat", "agents", "covenant"):
                if service != victim:
                    await coven.start(service)
            journals = [await store.open("chat", CHAT.registry()), await store.open("agents", AGENTS.registry())]
            yield coven, journals
        finally:
            await coven.close()
            barrier.close()


async def told(coven: Deployment, journals: list[Journal]) -> list[str]:
    """What stands in the journals of this room, kind by kind, with names in the place of Discord's ids.

    Between two kinds the order is open: a second question may come before the first answer or behind it.
    """
    names: dict[str, str] = {}
    records = [record for journal in journals async for record in journal.read(session=coven.session)]
    lines = [_DIGEST.sub("", line) for line in story(sorted(records, key=lambda record: record.kind))]
    return [_SNOWFLAKE.sub(lambda found: names.setdefault(found.group(), f"@{len(names) + 1}"), line) for line in lines]


async def undisturbed(coven: Deployment, journals: list[Journal], trace: Path) -> tuple[list[FaultPoint], list[str]]:
    """The points that the victim passes when nobody kills it, and the story of that conversation."""
    await coven.start(coven.victim, COVEN_FAULT_TRACE=str(trace))
    asked = await coven.say()
    await coven.finished(journals[0])
    points = reached_points(trace)
    await coven.stop(coven.victim)
    check(coven, asked)
    shown = [message.history for message in coven.discord.world.of_bot(coven.room)]
    assert all(before[0].endswith(CURSOR) for before in shown), "both were shown while they were being written"
    return points, await told(coven, journals)


def check(coven: Deployment, asked: list[Message]) -> None:
    """One whole answer to each question, in order, and nothing else."""
    said = coven.discord.world.of_bot(coven.room)
    assert [message.text for message in said] == [
        f"I have heard this. You said: Ada: {text}. That is all." for text in _QUESTIONS
    ]
    assert [message.reply_to for message in said] == [message.id for message in asked]


async def kill_at(point: FaultPoint, coven: Deployment, journals: list[Journal], expected: list[str]) -> None:
    """Kill the victim there, start it again, and compare."""
    await coven.start(coven.victim, **killed_at(point))
    asked = await coven.say()
    await coven.died()
    await come_back(coven, journals, asked, expected, f"killed at {point}")


async def come_back(
    coven: Deployment, journals: list[Journal], asked: list[Message], expected: list[str], where: str
) -> None:
    try:
        await coven.start(coven.victim)
        await coven.finished(journals[0])
        check(coven, asked)
        assert await told(coven, journals) == expected
    except (AssertionError, TimeoutError) as error:
        said = [message.text for message in coven.discord.world.of_bot(coven.room)]
        raise AssertionError(f"{where}: {error}; said {said}; {await told(coven, journals)}") from error
    finally:
        await coven.stop(coven.victim)


def chosen(points: list[FaultPoint], *names: str) -> list[FaultPoint]:
    """The first point of each of these names."""
    return [next(point for point in points if point.name == name) for name in names]


async def test_a_kill_of_the_chat_at_places_that_matter(tmp_path: Path, nats_server: EmbeddedServer) -> None:
    async with deployed(tmp_path, nats_server, "chat") as (coven, journals):
        points, expected = await undisturbed(coven, journals, tmp_path / "trace")
        for point in chosen(points, "chat.append.ChatAfferent.before"):
            await kill_at(point, coven, journals, expected)
        await kill_behind("send", 1, coven, journals, expected)


async def test_a_kill_of_the_agents_at_places_that_matter(tmp_path: Path, nats_server: EmbeddedServer) -> None:
    async with deployed(tmp_path, nats_server, "agents") as (coven, journals):
        points, expected = await undisturbed(coven, journals, tmp_path / "trace")
        for point in chosen(points, "agents-chunks.append.AgentChunk.after"):
            await kill_at(point, coven, journals, expected)


@pytest.mark.chaos
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("victim", ["chat", "agents"])
async def test_a_kill_at_every_operation(tmp_path: Path, nats_server: EmbeddedServer, victim: str) -> None:
    async with deployed(tmp_path, nats_server, victim) as (coven, journals):
        points, expected = await undisturbed(coven, journals, tmp_path / "trace")
        for point in points:
            await kill_at(point, coven, journals, expected)


@pytest.mark.chaos
@pytest.mark.timeout(600)
async def test_a_kill_behind_every_request_to_discord(tmp_path: Path, nats_server: EmbeddedServer) -> None:
    async with deployed(tmp_path, nats_server, "chat") as (coven, journals):
        _, expected = await undisturbed(coven, journals, tmp_path / "trace")
        for kind in ("typing", "send", "edit"):
            for number in (1, 2):
                await kill_behind(kind, number, coven, journals, expected)


async def kill_behind(kind: str, number: int, coven: Deployment, journals: list[Journal], expected: list[str]) -> None:
    """Kill the chat when Discord has done the n-th request of this kind in the room, and has not answered it."""
    left = number

    async def hold(done: str) -> None:
        nonlocal left
        kinds = coven.discord.requests
        if done == kind and kinds[-1] == (kind, str(coven.room.id)):
            left -= 1
            if left == 0:
                os.kill(coven.pid, signal.SIGKILL)

    await coven.start("chat")
    coven.discord.hold = hold
    try:
        asked = await coven.say()
        await coven.died()
    finally:
        coven.discord.hold = None
    await come_back(coven, journals, asked, expected, f"killed behind {kind} {number}")
