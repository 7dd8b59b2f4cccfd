"""The whole line from Discord and back: a host with the bot, the covenant, an agent and its tools."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from ruamel.yaml import YAML

from branches.agents import AGENTS
from branches.agents.loom import read_loom
from coven.configuration import configure
from coven.host import Host
from coven.testing.discord import DiscordServer
from journals import MemoryStore
from tests.living import living


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
    async with living(Host(config, store, environ={}, tell=lambda _: None)):
        yield


async def test_a_message_on_discord_is_answered_with_what_a_tool_gave_also_after_a_restart(config, discord):
    store, room = MemoryStore(), discord.world.general
    for life in (1, 2):
        async with running(config, store):
            asked = await discord.say("what files are here?")
            await discord.until(lambda: [m.text[-1:] for m in discord.world.of_bot(room)] == [")"] * life)  # noqa: B023
        answer = discord.world.of_bot(room)[-1]
        assert (answer.text, answer.reply_to) == ("In the workspace:\n  notes.md  (87 bytes)", asked.id)


async def forked(config, discord, store: MemoryStore) -> str:
    """Two questions, and a third in the place of the second; gives what the command was told."""
    room = discord.world.general
    async with running(config, store):
        for number, text in enumerate(("what files are here?", "read notes.md"), 1):
            await discord.say(text)
            await discord.until(lambda: len(discord.world.of_bot(room)) == number)  # noqa: B023
        await discord.command("fork", back=1, text="run pwd")
        (response,) = await discord.until(lambda: discord.responses)
        if "Not forked" not in response["data"]["content"]:
            await discord.until(lambda: len(discord.world.of_bot(room)) == 3)
    return response["data"]["content"]


async def test_a_fork_of_a_chat_is_a_fork_of_its_agent(config, discord):
    store = MemoryStore()
    assert "goes on from 1 message back" in await forked(config, discord, store)
    agents = await store.open("agents", AGENTS.registry())
    threads = (await read_loom(agents)).threads
    assert [thread.intents for thread in threads] == [
        ("what files are here?", "read notes.md"),
        ("what files are here?", "run pwd"),
    ]
    assert threads[1].shared == 2


async def test_without_the_route_the_chat_says_so_and_nothing_is_forked(config, discord):
    routes = tuple(route for route in config.routes if route.source_kind != "ChatForked")
    told = await forked(msgspec.structs.replace(config, routes=routes), discord, MemoryStore())
    assert told == "Not forked: this coven does not fork: its covenant has no route `ChatForked -> AgentFork`."


async def test_moderators_say_in_a_channel_of_theirs_what_is_sent_also_after_a_restart(project, config, discord):
    mods, grace = discord.world.channel("moderators"), discord.world.person("Grace")
    yaml, path, store = YAML(), project / "coven.yaml", MemoryStore()
    file = yaml.load(path.read_text(encoding="utf-8"))
    asks = {"conversation": f"discord:{mods.id}", "approvers": [str(grace.id)]}
    changed = ("AgentResponse ->", "AgentChunk ->", "AgentStreamCompleted ->")
    kept = [route for route in file["covenant"] if not str(route).startswith(changed)]
    file["covenant"] = [*kept, {"route": "AgentResponse -> ChatEfferentDraft", "approve": asks}]
    file["covenant"] += ["AgentChunk -> nowhere", "AgentStreamCompleted -> nowhere"]
    with path.open("w", encoding="utf-8") as stream:
        yaml.dump(file, stream)
    config = configure(path, {"DISCORD_TOKEN": discord.token}).config
    room = discord.world.general
    async with running(config, store):
        asked = await discord.say("what files are here?")
        (question,) = await discord.until(lambda: discord.world.of_bot(mods))
        said = discord.world.of_bot(room)
    async with running(config, store):
        yes = question.components[0]["components"][0]["custom_id"]
        await discord.press(question, yes, author="Mallory")
        await discord.until(lambda: discord.responses)
        await discord.press(question, yes, author="Grace")
        (answer,) = await discord.until(lambda: discord.world.of_bot(room))
    assert said == []
    assert "not one of those who may answer" in discord.responses[0]["data"]["content"]
    assert question.history[0].startswith(rf'May I send to chat in "discord\:{room.id}"\: ChatEfferentDraft')
    assert question.components == []
    assert (answer.text, answer.reply_to) == ("In the workspace:\n  notes.md  (87 bytes)", asked.id)
