"""The whole line from Slack and back: a host with the app, the covenant, an agent and its tools."""

from __future__ import annotations

import asyncio
import signal
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from coven.configuration import configure
from coven.host import Host
from coven.testing.slack import Message, SlackServer
from journals import Store
from tests.living import living


@pytest.fixture
async def slack():
    async with SlackServer() as server:
        yield server


@pytest.fixture
def environ(slack: SlackServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    tokens = {"SLACK_BOT_TOKEN": slack.bot_token, "SLACK_APP_TOKEN": slack.app_token}
    for name, token in tokens.items():
        monkeypatch.setenv(name, token)
    return tokens


def write(project: Path, slack: SlackServer, *routes: str, **circle: Any) -> Path:
    """The configuration of a coven that talks on Slack."""
    yaml, path = YAML(), project / "coven.yaml"
    file = yaml.load(path.read_text(encoding="utf-8"))
    file["branches"]["chat"] = {"leaf": "slack", "options": {"api": slack.api, "name_authors": False}}
    file["branches"]["agents"]["circle"].update(circle)
    file["covenant"].extend(routes)
    with path.open("w", encoding="utf-8") as stream:
        yaml.dump(file, stream)
    return path


@asynccontextmanager
async def running(config, store: Store):
    async with living(Host(config, store, environ={}, tell=lambda _: None)):
        yield


async def test_a_message_on_slack_is_answered_with_what_a_tool_gave_also_after_a_restart(
    project, slack, environ, store
):
    config, room = configure(write(project, slack), environ).config, slack.world.general
    for life in (1, 2):
        async with running(config, store):
            await slack.say("what files are here?")
            await slack.until(lambda: [m.text[-1:] for m in slack.world.of_bot(room)] == [")"] * life)  # noqa: B023
        assert slack.world.of_bot(room)[-1].text == "In the workspace:\n  notes.md  (87 bytes)"
    assert slack.mistakes == []


def asked(slack: SlackServer) -> list[Message]:
    """The questions with buttons."""
    return [m for m in slack.world.of_bot(slack.world.general) if any(b["type"] == "actions" for b in m.blocks)]


async def test_a_call_waits_over_a_restart_for_the_one_who_may_approve_it(project, slack, environ, store):
    ada, written = slack.world.person("Ada"), project / "workspace" / "list.txt"
    routes = ("ApprovalAsked -> ChatQuestion", "ChatAnswer -> ApprovalGiven")
    path = write(project, slack, *routes, approve=["fs.write_text"], approvers=[ada.id])
    config = configure(path, environ).config
    async with running(config, store):
        await slack.say("write 'milk' to list.txt")
        (question,) = await slack.until(lambda: asked(slack))
    async with running(config, store):
        await slack.press(question, 0, author="Mallory")
        (whisper,) = await slack.until(lambda: slack.whispers)
        assert whisper["text"] == "You are not one of those who may answer this."
        assert not written.exists()
        assert asked(slack) == [question]
        await slack.press(question, 0)
        await slack.until(lambda: "list.txt" in slack.world.of_bot(slack.world.general)[-1].text and not asked(slack))
    assert written.read_text() == "milk"
    assert "fs.write_text" in question.blocks[0]["text"]["text"]
    assert slack.mistakes == []


async def test_a_coven_that_is_killed_between_sending_and_recording_sends_once(project, slack, environ, start):
    write(project, slack)
    room, lives = slack.world.general, []

    async def kill(method: str) -> None:
        if method == "chat.postMessage":
            slack.hold = None
            lives[-1].signal(signal.SIGKILL)
            await asyncio.to_thread(lives[-1].end)

    slack.hold = kill
    lives.append(await asyncio.to_thread(start, "run"))
    await slack.until(lambda: slack.open, 60)
    await slack.say("what files are here?")
    await slack.until(lambda: slack.hold is None, 60)
    lives.append(await asyncio.to_thread(start, "run"))
    await slack.until(lambda: slack.connections == 2 and not slack.unacknowledged, 60)
    await slack.say("read notes.md")
    await slack.until(lambda: len([m for m in slack.world.of_bot(room) if "▌" not in m.text]) == 2, 60)
    first, _ = slack.world.of_bot(room)
    assert first.text == "In the workspace:\n  notes.md  (87 bytes)"
    assert slack.mistakes == []
