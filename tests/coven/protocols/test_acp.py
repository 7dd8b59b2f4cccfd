"""Coven as an agent of the Agent Client Protocol: the package's own client, and a real process."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp
import pytest
from acp.schema import ClientCapabilities

Opening = Callable[..., Any]


class Editor(acp.Client):
    """A client that keeps what it is told."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self._updated = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        self._updated.set()

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait for the update with which this holds."""
        while not condition():
            self._updated.clear()
            await self._updated.wait()

    @property
    def text(self) -> str:
        return "".join(each.content.text for each in self.of("agent_message_chunk"))

    def of(self, kind: str) -> list[Any]:
        return [update for update in self.updates if update.session_update == kind]


@pytest.fixture
def opening() -> Opening:
    """Starts `coven acp`: gives the editor, its connection and the process."""

    @asynccontextmanager
    async def start(*arguments: str) -> AsyncGenerator[tuple[Editor, Any, Any]]:
        editor = Editor()
        command = [sys.executable, "-m", "coven", "acp", *arguments]
        async with acp.spawn_agent_process(editor, *command, env=dict(os.environ)) as (connection, process):
            await connection.initialize(protocol_version=acp.PROTOCOL_VERSION, client_capabilities=ClientCapabilities())
            yield editor, connection, process

    return start


async def new(connection: Any) -> str:
    return (await connection.new_session(cwd=str(Path.cwd()), mcp_servers=[])).session_id


async def ask(connection: Any, session: str, text: str) -> Any:
    return await connection.prompt(session_id=session, prompt=[acp.text_block(text)])


async def test_a_prompt_is_an_episode_told_as_it_happens(opening, scripted) -> None:
    scripted(
        '[calls(("fs.read_text", {"path": "notes.md"}), text="Let me look.", thinking="hm"), says("Milk.\\nBye.")]'
    )
    async with opening() as (editor, connection, _):
        answer = await ask(connection, await new(connection), "read")
        assert answer.stop_reason == "end_turn"
        assert [update.content.text for update in editor.of("agent_thought_chunk")] == ["hm"]
        assert editor.text == "Let me look.\n\nMilk.\nBye."
        (call,) = editor.of("tool_call")
        assert (call.title, call.kind, call.status) == ('fs.read_text(path="notes.md")', "read", "in_progress")
        (result,) = editor.of("tool_call_update")
        assert (result.tool_call_id, result.status) == (call.tool_call_id, "completed")
        assert "The kettle" in result.raw_output["text"]


async def test_a_thought_is_told_while_the_crystal_still_thinks(opening, scripted) -> None:
    scripted("[aloud]")
    async with opening() as (editor, connection, _):
        asking = asyncio.create_task(ask(connection, await new(connection), "go"))
        await editor.until(lambda: editor.of("agent_thought_chunk"))
        (begun,) = editor.of("agent_thought_chunk")
        await asyncio.to_thread(Path("go").write_text, "I greet.")
        await asking
        assert begun.content.text == "They greet.\n"
        assert "".join(each.content.text for each in editor.of("agent_thought_chunk")) == "They greet.\nI greet."
        assert editor.text == "Hello."


async def test_what_done_is_given_is_the_answer(opening, scripted) -> None:
    scripted('[finishes("It is done.")]')
    async with opening() as (editor, connection, _):
        assert (await ask(connection, await new(connection), "go")).stop_reason == "end_turn"
        assert editor.text == "It is done."
        assert not editor.of("tool_call")


async def test_a_text_that_was_cut_off_is_told_once_and_says_so(opening, scripted) -> None:
    scripted('[says("Once upon a", finish="length"), says("time", finish="other")]')
    async with opening() as (editor, connection, _):
        session = await new(connection)
        answer = await ask(connection, session, "go")
        assert answer.stop_reason == "max_tokens"
        assert answer.field_meta["coven"]["finish"] == "length"
        assert editor.text == "Once upon a\n\n(The answer was cut off here: it reached its limit of tokens.)"
        editor.updates.clear()
        assert (await ask(connection, session, "go on")).stop_reason == "end_turn"
        assert editor.text == "time\n\n(The answer was cut off here by its provider.)"


async def test_a_gate_that_fails_is_shown_so(opening, scripted) -> None:
    scripted('[calls(("fs.read_text", {"path": "nowhere.md"})), says("no")]')
    async with opening() as (editor, connection, _):
        await ask(connection, await new(connection), "go")
        assert [update.status for update in editor.of("tool_call_update")] == ["failed"]


async def test_an_episode_is_cancelled_for_good(opening, scripted, project, coven) -> None:
    scripted("[hangs]")
    async with opening() as (_, connection, _process):
        session = await new(connection)
        asking = asyncio.create_task(ask(connection, session, "go"))
        await asyncio.to_thread((project / "asked").read_text)
        await connection.cancel(session_id=session)
        assert (await asking).stop_reason == "cancelled"
        assert (await ask(connection, session, "go on")).stop_reason == "end_turn"


async def test_a_cancellation_that_comes_at_once_is_heard(opening, scripted) -> None:
    scripted("[hangs]")
    async with opening() as (_, connection, _process):
        session = await new(connection)
        asking = asyncio.create_task(ask(connection, session, "go"))
        await asyncio.sleep(0)
        await connection.cancel(session_id=session)
        asked = asyncio.create_task(asyncio.to_thread(Path("asked").read_text))
        assert (await asking).stop_reason == "cancelled"
        while not asked.done():  # should it never have been asked, the reader is let go, once it has begun
            pipe = os.open("asked", os.O_RDWR)
            os.write(pipe, b"now")
            os.close(pipe)
            await asyncio.sleep(0)
        await asked


async def test_two_prompts_at_once_wait_for_each_other(opening, scripted, project) -> None:
    scripted('[waits, says("second")]')
    async with opening() as (editor, connection, _):
        session = await new(connection)
        both = [asyncio.create_task(ask(connection, session, text)) for text in ("one", "two")]
        await asyncio.to_thread((project / "asked").read_text)
        await asyncio.to_thread((project / "go").write_text, "first")
        assert [(await each).stop_reason for each in both] == ["end_turn", "end_turn"]
        assert editor.text.index("first") < editor.text.index("second")


@pytest.mark.parametrize(
    ("script", "reason"), [('[calls(("fs.list_dir", {}))] * 50', "max_turn_requests"), ('[says("x")]', "end_turn")]
)
async def test_reasons_to_stop(opening, scripted, script, reason) -> None:
    scripted(script)
    async with opening() as (_, connection, _process):
        assert (await ask(connection, await new(connection), "go")).stop_reason == reason


async def test_a_failure_is_an_error_with_its_reason(opening, scripted) -> None:
    scripted('[fails(400, "no such model")]')
    async with opening() as (_, connection, _process):
        with pytest.raises(acp.RequestError, match="no such model"):
            await ask(connection, await new(connection), "go")


async def test_a_session_is_loaded_with_all_that_happened(opening, scripted) -> None:
    scripted('[calls(("fs.list_dir", {})), says("hello"), says("bye")]')
    async with opening() as (_, connection, _process):
        session = await new(connection)
        await ask(connection, session, "I am Ada.")
        await ask(connection, session, "Bye.")
    async with opening() as (editor, connection, _process):
        with pytest.raises(acp.RequestError, match="there is no session"):
            await ask(connection, session, "not loaded")
        await connection.load_session(cwd="/", session_id=session, mcp_servers=[])
        told = [
            update.content.text if hasattr(update, "content") and hasattr(update.content, "text") else update.title
            for update in editor.updates
            if update.session_update != "tool_call_update"
        ]
        assert told == ["I am Ada.", "fs.list_dir()", "hello", "Bye.", "bye"]
        with pytest.raises(acp.RequestError, match="there is no session"):
            await connection.load_session(cwd="/", session_id="nobody", mcp_servers=[])


async def test_links_and_embedded_text_are_part_of_the_intent(opening, scripted) -> None:
    scripted("[lambda request: says(request.messages[-1].content)]")
    async with opening() as (editor, connection, _):
        session = await new(connection)
        blocks = [
            acp.text_block("Look at "),
            acp.resource_link_block("notes", "file:///notes.md"),
            acp.resource_block(acp.embedded_text_resource("file:///a.txt", "milk")),
        ]
        await connection.prompt(session_id=session, prompt=blocks)
        assert editor.text == "Look at [notes](file:///notes.md)<file:///a.txt>\n\n<file:///a.txt>:\nmilk"
        for wrong in ([acp.image_block("no base64", "image/png")], [], [acp.text_block(" ")]):
            with pytest.raises(acp.RequestError):
                await connection.prompt(session_id=session, prompt=wrong)


async def test_an_image_is_shown_to_the_crystal(opening, scripted) -> None:
    scripted("[lambda request: says(f'{request.messages[-1].content}: {request.messages[-1].images[0].body[1:4]}')]")
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n\0").decode()
    async with opening() as (editor, connection, _):
        session = await new(connection)
        await connection.prompt(session_id=session, prompt=[acp.image_block(png, "image/png")])
        assert editor.text == "Look at this.\n\n[attached: image-1.png, image/png, 9 bytes]: b'PNG'"


async def test_without_a_file_nothing_is_kept(opening, tmp_path, monkeypatch) -> None:
    (tmp_path / "a.txt").write_text("milk")
    monkeypatch.chdir(tmp_path)
    async with opening("--crystal", "rehearsal") as (editor, connection, _):
        session = await new(connection)
        await ask(connection, session, "read a.txt")
        assert "milk" in editor.text
    assert os.listdir(tmp_path) == ["a.txt"]


def talk(*lines: bytes, folder: Path) -> tuple[int, list[dict[str, Any]], str]:
    """What the process says to these lines, and how it ends when its input is closed."""
    ran = subprocess.run(
        [sys.executable, "-m", "coven", "acp"],
        input=b"".join(line + b"\n" for line in lines),
        capture_output=True,
        timeout=60,
        cwd=folder,
        check=False,
    )
    return ran.returncode, [json.loads(line) for line in ran.stdout.splitlines()], ran.stderr.decode()


INITIALIZE = b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}'


def test_what_is_no_message_is_answered_and_the_next_one_is_heard(project) -> None:
    wrong = [b'{"jsonrpc', b"\xff\xfe", b"[1]", b"5", b"[" * 100_000, b'{"method": 5, "id": 1}', b"x" * (17 << 20), b""]
    code, said, err = talk(*wrong, INITIALIZE, folder=project)
    assert (code, err) == (0, "")
    assert [message["error"]["code"] for message in said[:-1]] == [
        *(-32700, -32700, -32600, -32600, -32700, -32600, -32700)
    ]
    assert said[-1]["result"]["agentInfo"]["name"] == "coven"


class Raw:
    """The process without a client: what it is sent and says, line by line."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "coven", "acp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder
        )

    def send(self, id: int, method: str, params: str) -> None:
        assert self.process.stdin is not None
        request = f'{{"jsonrpc": "2.0", "id": {id}, "method": "{method}", "params": {params}}}\n'
        self.process.stdin.write(request.encode())
        self.process.stdin.flush()

    def request(self, id: int, method: str, params: str) -> dict[str, Any]:
        assert self.process.stdout is not None
        self.send(id, method, params)
        return json.loads(self.process.stdout.readline())

    def new_session(self) -> str:
        return self.request(1, "session/new", '{"cwd": "/", "mcpServers": []}')["result"]["sessionId"]

    def close(self) -> int:
        self.process.communicate(timeout=60)
        return self.process.returncode


def prompt_params(session: str, text: str) -> str:
    return f'{{"sessionId": "{session}", "prompt": [{{"type": "text", "text": "{text}"}}]}}'


def test_input_that_is_closed_ends_it_and_cancels_nothing(project, scripted, coven) -> None:
    scripted("[hangs]")
    raw = Raw(project)
    raw.send(2, "session/prompt", prompt_params(raw.new_session(), "go"))
    (project / "asked").read_text()
    assert raw.close() == 0
    kinds = [line["kind"] for line in coven("journal", "read", "agents", "-o", "json").lines]
    assert "AgentPrompt" in kinds
    assert not {"AgentResponse", "AgentCancel"} & set(kinds)


def test_a_signal_ends_it_in_order(project, scripted) -> None:
    scripted("[hangs]")
    raw = Raw(project)
    raw.send(2, "session/prompt", prompt_params(raw.new_session(), "go"))
    (project / "asked").read_text()
    raw.process.send_signal(signal.SIGTERM)
    assert raw.process.wait(60) == 0
    raw.close()


def test_half_a_surrogate_pair_is_refused(project, scripted) -> None:
    scripted("[]")
    raw = Raw(project)
    refused = raw.request(2, "session/prompt", prompt_params(raw.new_session(), "\\ud800"))
    assert (refused["error"]["code"], "Unicode" in refused["error"]["message"]) == (-32602, True)
    assert raw.close() == 0


def test_what_other_code_prints_is_no_part_of_the_protocol(project, scripted) -> None:
    scripted('[lambda request: print("noise") or says("hello")]')
    raw = Raw(project)
    raw.send(2, "session/prompt", prompt_params(raw.new_session(), "go"))
    assert raw.process.stdout is not None
    said = [json.loads(raw.process.stdout.readline()) for _ in range(2)]
    assert said[0]["params"]["update"]["content"]["text"] == "hello"
    assert said[1]["result"]["stopReason"] == "end_turn"
    assert raw.close() == 0


def test_a_terminal_or_a_file_is_no_editor(project) -> None:
    with (project / "coven.yaml").open("rb") as file:
        ran = subprocess.run(
            [sys.executable, "-m", "coven", "acp"], stdin=file, capture_output=True, timeout=60, check=False
        )
    assert (ran.returncode, b"started by an editor" in ran.stderr) == (1, True)
