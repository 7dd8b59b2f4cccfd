"""The whole line from Discord and back: a host with the bot, the covenant, an agent and its tools."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from coven.configuration import configure
from coven.host import Host
from coven.testing.discord import DiscordServer
from journals import MemoryStore


@pytest.fixture
async def discord():
    async with DiscordServer() as server:
        yield server


@pytest.fixture
def config(project: Path, discord: DiscordServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DISCORD_TOKEN", discord.token)
    yaml, path = YAML(), project / "coven.yaml"
    file = yaml.load(path.read_text(encoding="utf-8"))
    file["branches"]["chat"] = {"leaf": "discord", "options": {"api": discord.api, "name_authors": False}}
    with path.open("w", encoding="utf-8") as stream:
        yaml.dump(file, stream)
    return configure(path, {"DISCORD_TOKEN": discord.token}).config


@asynccontextmanager
async def running(config, store: MemoryStore):
    ready = asyncio.Event()
    host = Host(config, store, environ={}, tell=lambda _: None)
    task = asyncio.create_task(host.run(ready.set))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    assert ready.is_set(), task
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_message_on_discord_is_answered_with_what_a_tool_gave_also_after_a_restart(config, discord):
    store, room = MemoryStore(), discord.world.general
    for life in (1, 2):
        async with running(config, store):
            asked = await discord.say("what files are here?")
            await discord.until(lambda: [m.text[-1:] for m in discord.world.of_bot(room)] == [")"] * life)  # noqa: B023
        answer = discord.world.of_bot(room)[-1]
        assert (answer.text, answer.reply_to) == ("In the workspace:\n  notes.md  (87 bytes)", asked.id)
