"""The pages about chat leaves: the leaf that one writes talks, and the other's bot is brought as it says."""

from __future__ import annotations

import asyncio
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from branches.chat import CHAT, ChatChunk, ChatEfferentDraft, ChatStreamCompleted
from branches.chat.entries import ChatQuestion
from branches.chat.service import ChatService
from branches.secret import Secret
from coven.testing.slack.server import SCOPES
from covenants import check, load_text
from journals import Journal, MemoryStore
from journals._server._ports import choose_port
from leaves.catalogue import CATALOGUE
from leaves.chats.discord.leaf import Discord
from leaves.chats.discord.options import DiscordOptions
from leaves.chats.slack.incoming import Command
from leaves.chats.slack.leaf import Slack
from leaves.chats.slack.options import SlackOptions
from tests.docs.examples import ROOT, blocks, whole_file, write_code

PAGES = ["writing-a-leaf.md", "discord.md", "slack.md"]
TOKENS = ("DISCORD_TOKEN", "SLACK_BOT_TOKEN", "SLACK_APP_TOKEN")
EXAMPLES = [(page, block) for page in PAGES for block in blocks(page) if block.info == "yaml"]


@pytest.mark.parametrize(("page", "block"), EXAMPLES, ids=[page for page, _ in EXAMPLES])
def test_the_configuration_passes_the_check(page: str, block, tmp_path: Path) -> None:
    write_code(page, tmp_path)
    loaded = load_text(whole_file(block.text).encode(), dict.fromkeys(TOKENS, "canary"), base=tmp_path)
    assert [str(problem) for problem in check(loaded, CATALOGUE).problems] == []


@pytest.mark.parametrize("missing", TOKENS)
def test_a_bot_without_its_token_is_found_before_it_runs(missing: str, tmp_path: Path) -> None:
    page = f"{missing.partition('_')[0].lower()}.md"
    ((_, block),) = [example for example in EXAMPLES if example[0] == page]
    others = {token: "canary" for token in TOKENS if token != missing}
    loaded = load_text(whole_file(block.text).encode(), others, base=tmp_path)
    (problem,) = check(loaded, CATALOGUE).problems
    assert problem.code == "E402"
    assert missing in problem.message


def test_a_token_that_an_option_names_leaves_the_others_needed(tmp_path: Path) -> None:
    text = "branches: {chat: {leaf: slack, options: {bot_token: '${HEARTH_BOT}'}}}"
    loaded = load_text(whole_file(text).encode(), {"HEARTH_BOT": "canary"}, base=tmp_path)
    (problem,) = check(loaded, CATALOGUE).problems
    assert (problem.code, "SLACK_APP_TOKEN" in problem.message) == ("E402", True)


def test_the_apps_manifest_has_what_the_leaf_asks_for() -> None:
    page = (ROOT / "docs" / "slack.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^   ```yaml\n(.*?)^   ```$", page, re.M | re.S)
    manifest = YAML(typ="safe", pure=True).load(textwrap.dedent(text))
    assert set(SCOPES) <= set(manifest["oauth_config"]["scopes"]["bot"])
    assert manifest["settings"]["socket_mode_enabled"]
    assert manifest["settings"]["interactivity"]["is_enabled"]
    commands = [Command(each["command"], "C1", "U1", "t").name for each in manifest["features"]["slash_commands"]]
    assert sorted(commands) == ["approve", "ask", "fork", "reset"]


def example(page: str) -> dict[str, Any]:
    """The names that the page's Python defines."""
    (code,) = (block.text for block in blocks(page) if block.info == "python")
    names: dict[str, Any] = {}
    exec(compile(code, page, "exec"), names)
    return names


async def serving(leaf, journal: Journal, chunks: Journal) -> asyncio.Task[None]:
    service = ChatService("chat", journal, leaf, owner="test", chunk_journal=chunks)
    ready = asyncio.Event()
    task = asyncio.create_task(service.run(ready.set))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    assert ready.is_set(), task
    return task


async def echo(journal: Journal) -> None:
    async for record in journal.tail(0, kinds=["ChatAfferent"]):
        await journal.append(ChatEfferentDraft(text=f"<{record.entry.text}>"), session=record.session, cause=record)


async def test_the_leaf_of_the_page_talks_streams_and_asks() -> None:
    port = choose_port()
    lines, store = example("writing-a-leaf.md")["Lines"], MemoryStore()
    journal = await store.open("chat", CHAT.registry())
    chunks = await store.open("chat-chunks", CHAT.registry(short_lived=True), short_lived=True)
    async with asyncio.timeout(60):
        service = await serving(lines(lines.Options(port=port), "chat"), journal, chunks)
        answering = asyncio.create_task(echo(journal))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"attic\nhello\n")
        assert await reader.readline() == b"<hello>\n"
        for index, text in enumerate(["One. Tw", "o. "]):
            await chunks.append(ChatChunk(stream="s", index=index, text=text), session="attic")
        await chunks.append(ChatStreamCompleted(stream="s"), session="attic")
        assert await reader.readline() == b"... One.\n"
        assert await reader.readline() == b"... Two.\n"
        await journal.append(
            ChatQuestion(correlation_id="q", question="Shall I?", choices=("yes", "no")), session="attic"
        )
        assert await reader.readline() == b"Shall I?\n"
        writer.write(b"yes\n")
        answer = await journal.wait_for(lambda record: record.kind == "ChatAnswer", timeout=60)
        await journal.append(ChatEfferentDraft(text="anybody?"), session="cellar")
        gone = await journal.wait_for(lambda record: record.kind == "ChatUndelivered", timeout=60)
    assert (answer.entry.answer, answer.entry.by) == ("yes", "attic")
    assert "cellar" in gone.entry.error
    writer.close()
    for task in (service, answering):
        task.cancel()
    await asyncio.wait([service, answering])


async def test_the_test_of_the_page_about_discord() -> None:
    store, tasks = MemoryStore(), []
    journal = await store.open("chat", CHAT.registry())
    chunks = await store.open("chat-chunks", CHAT.registry(short_lived=True), short_lived=True)

    async def bring_a_bot(api: str, token: str) -> None:
        options = DiscordOptions(token=Secret("${TOKEN}", {"TOKEN": token}), api=api)
        tasks.append(await serving(Discord(options, "chat"), journal, chunks))
        tasks.append(asyncio.create_task(echo(journal)))

    names = example("discord.md")
    names["bring_a_bot"] = bring_a_bot
    async with asyncio.timeout(60):
        assert await names["main"]() == "<Ada: hello>"
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_the_test_of_the_page_about_slack() -> None:
    store, tasks = MemoryStore(), []
    journal = await store.open("chat", CHAT.registry())
    chunks = await store.open("chat-chunks", CHAT.registry(short_lived=True), short_lived=True)

    async def bring_an_app(api: str, bot_token: str, app_token: str) -> None:
        environ = {"BOT": bot_token, "APP": app_token}
        options = SlackOptions(bot_token=Secret("${BOT}", environ), app_token=Secret("${APP}", environ), api=api)
        tasks.append(await serving(Slack(options, "chat"), journal, chunks))
        tasks.append(asyncio.create_task(echo(journal)))

    names = example("slack.md")
    names["bring_an_app"] = bring_an_app
    async with asyncio.timeout(60):
        assert await names["main"]() == "&lt;Ada: hello&gt;"
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
