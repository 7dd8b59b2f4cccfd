"""Coven over HTTP, by a real server on a loopback port."""

from __future__ import annotations

import ast
import asyncio
import base64
import json
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openapi_spec_validator import validate

from coven.entrance import entrance
from coven.http.app import ORIGIN, Api
from coven.http.bodies import BODY_LIMIT
from coven.http.openapi import openapi_document
from coven.http.server import HttpServer
from coven.recipe import Changes, bare_recipe
from leaves.serving import address_of, listen

Serving = Callable[..., Any]
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def serving(scripted) -> Serving:
    """Serves a scripted crystal over the memory store: gives a client for it."""

    @asynccontextmanager
    async def serve(script: str, *, token: str | None = None) -> AsyncGenerator[httpx2.AsyncClient]:
        folder = scripted(script)
        (folder / "notes.md").write_text("milk")
        recipe = bare_recipe(folder, {}, Changes(crystal="script.py:Script"))
        async with entrance(recipe, origin=ORIGIN, tell=print, environ={}, watch=True) as opened:
            api, listening = Api(opened), listen("127.0.0.1", 0)
            server = HttpServer(api.app(token), on_stop=api.stop)
            task = asyncio.create_task(server.serve([listening]))
            async with httpx2.AsyncClient(base_url=address_of(listening), timeout=60) as client:
                yield client
            server.stop()
            await task

    return serve


async def through(pipe: str) -> str:
    """What the crystal says through a pipe: that it was asked."""
    return await asyncio.to_thread(Path(pipe).read_text)


async def say(text: str) -> None:
    """Let a crystal that waits answer."""
    await asyncio.to_thread(Path("go").write_text, text)


async def test_a_cast_is_one_episode(serving) -> None:
    async with serving('[calls(("fs.read_text", {"path": "notes.md"})), finishes({"is": "milk"})]') as client:
        answer = (await client.post("/cast", json={"intent": "read"})).json()
        assert answer["answer"] == {"is": "milk"}
        assert (answer["ending"], answer["ward"], answer["error"], answer["turns"]) == ("terminated", None, None, 2)
        assert answer["session"].startswith("cast-")


async def test_an_answer_that_was_cut_off_says_so(serving) -> None:
    async with serving('[says("Once upon a", finish="length")]') as client:
        answer = (await client.post("/cast", json={"intent": "go"})).json()
        assert (answer["answer"], answer["ending"], answer["finish"]) == ("Once upon a", "terminated", "length")


async def test_files_come_with_an_intent(serving) -> None:
    """Images are shown, text is told, all else is named; and what is no image is told to be none."""
    script = (
        "[lambda request: says(str(([i.name for i in request.messages[-1].images], request.messages[-1].content)))]"
    )
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(3_000_000)).decode()
    files = [
        {"name": "../../chart.png", "media_type": "image/png", "body": png},
        {"name": "a.txt", "body": "bWlsaw=="},
        {"name": "b.png", "media_type": "image/png", "body": ""},
    ]
    async with serving(script) as client:
        answer = (await client.post("/cast", json={"intent": "look", "attachments": files})).json()
        wrong = await client.post("/cast", json={"intent": "look", "attachments": [{"name": "x", "body": "%"}]})
    images, told = ast.literal_eval(answer["answer"])
    assert images == ["chart.png"]
    assert told.split("\n\n") == [
        "look",
        "[attached: chart.png, image/png, 3,000,008 bytes]",
        "[attached: a.txt, unknown type, 4 bytes]\nmilk",
        "[attached: b.png, image/png, 0 bytes, not shown: it is empty]",
    ]
    assert "attachments" not in answer
    assert (wrong.status_code, wrong.json()["error"]) == (422, "bad_request")


async def test_an_ending_that_is_no_success_is_an_answer_too(serving) -> None:
    async with serving('[fails(400, "no such model")]') as client:
        response = await client.post("/cast", json={"intent": "go"})
        assert (response.status_code, response.json()["ending"]) == (200, "failed")
        assert "no such model" in response.json()["error"]


async def test_the_same_key_gets_the_same_answer_and_asks_nobody_again(serving) -> None:
    async with serving('[says("one"), says("two")]') as client:
        key = {"Idempotency-Key": "order-66"}
        first = await client.post("/cast", json={"intent": "go"}, headers=key)
        again = await client.post("/cast", json={"intent": "go"}, headers=key)
        assert first.json() == again.json()
        assert first.json()["answer"] == "one"
        assert first.json()["prompt"] == "order-66"
        other = await client.post("/cast", json={"intent": "something else"}, headers=key)
        assert (other.status_code, other.json()["error"]) == (409, "key_used")


async def test_a_session_is_an_entity_that_lasts(serving) -> None:
    script = '[says("hello"), lambda request: says(str([m.content for m in request.messages[1:]]))]'
    async with serving(script) as client:
        await client.post("/sessions/ada/prompts", json={"intent": "I am Ada."})
        answer = (await client.post("/sessions/ada/prompts", json={"intent": "Who am I?"})).json()
        assert answer["answer"] == "['I am Ada.', 'hello', 'Who am I?']"
        assert (answer["session"], answer["turns"]) == ("ada", 1)


async def test_two_prompts_at_once_wait_for_each_other(serving) -> None:
    async with serving('[waits, says("second")]') as client:
        first = asyncio.create_task(client.post("/sessions/ada/prompts", json={"intent": "one"}))
        await through("asked")
        second = (await client.post("/sessions/ada/prompts", json={"intent": "two", "wait": False})).json()
        await say("first")
        assert (await first).json()["answer"] == "first"
        events = await until_the_end(client, "ada", after=second["position"], episodes=2)
        assert [event["text"] for event in events if event["event"] == "FinalResponseEvent"] == ["first", "second"]


async def test_a_prompt_that_is_not_waited_for_is_followed_by_its_events(serving) -> None:
    async with serving('[calls(("fs.list_dir", {}), thinking="hm"), says("done")]') as client:
        response = await client.post("/sessions/ada/prompts", json={"intent": "go", "wait": False})
        assert response.status_code == 202
        events = await until_the_end(client, "ada", after=response.json()["position"])
        told = [event["event"].removesuffix("Event") for event in events]
        assert told == [
            *("StepStart", "Thinking", "Usage", "ToolCall", "ToolResult", "StepComplete"),
            *("StepStart", "Text", "Usage", "StepComplete", "FinalResponse"),
        ]
        assert events[-1]["text"] == "done"


async def test_a_reader_that_was_cut_off_anywhere_misses_and_repeats_nothing(serving) -> None:
    said = 'says("one\\ntwo\\n", thinking="a\\nb\\n")'
    async with serving(f'[calls(("fs.list_dir", {{}})), {said}, says("bye")]') as client:
        position = (await client.post("/sessions/ada/prompts", json={"intent": "go", "wait": False})).json()["position"]
        whole = await read_events(client, "ada", {"after": position})
        marks = [number for number, (id, _) in enumerate(whole) if id is not None]
        assert len(marks) > 8
        for number in marks[:-1]:
            id, _ = whole[number]
            rest = await read_events(client, "ada", {}, {"Last-Event-ID": id})
            expected = [event for id, event in whole[number + 1 :] if id is not None]
            assert [event for id, event in rest if id is not None] == expected
            for kind, wanted in (("TextEvent", "one\ntwo\n"), ("ThinkingEvent", "a\nb\n")):
                told = [event["text"] for _, event in rest if event["event"] == kind]
                assert "".join(told) in ("", wanted)


async def test_a_thought_is_told_while_the_crystal_still_thinks_to_all_who_come_meanwhile(serving) -> None:
    async with serving("[aloud]") as client, AsyncExitStack() as readers:
        await client.post("/sessions/ada/prompts", json={"intent": "go", "wait": False})
        told: list[list[str]] = []
        for _ in range(2):
            response = await readers.enter_async_context(client.stream("GET", "/sessions/ada/events?once=true"))
            lines = response.aiter_lines()
            told.append([])
            while not told[-1] or "They greet." not in told[-1][-1]:
                told[-1].append(await anext(lines))
            readers.push_async_callback(_read_on, lines, told[-1])
        await say("I greet.")
    for each in told:
        events = [json.loads(line.removeprefix("data: ")) for line in each if line.startswith("data: ")]
        assert [event["text"] for event in events if event["event"] == "ThinkingEvent"] == ["They greet.\n", "I greet."]
        assert "".join(event["text"] for event in events if event["event"] == "TextEvent") == "Hello."


async def _read_on(lines: AsyncIterator[str], told: list[str]) -> None:
    told += [line async for line in lines]


async def test_whoever_comes_while_an_episode_is_at_work_sees_all_of_it(serving) -> None:
    async with serving("[waits]") as client:
        await client.post("/sessions/ada/prompts", json={"intent": "go", "wait": False})
        await through("asked")
        async with client.stream("GET", "/sessions/ada/events?once=true") as response:
            lines = response.aiter_lines()
            begun = [await anext(lines) for _ in range(3)]
            assert parsed("\n".join(begun))[1]["event"] == "StepStartEvent"
            await say("there")
            rest = [line async for line in lines]
        assert "event: FinalResponseEvent" in rest


async def test_a_server_that_stops_tells_whoever_waits(scripted) -> None:
    recipe = bare_recipe(scripted("[hangs]"), {}, Changes(crystal="script.py:Script"))
    async with entrance(recipe, origin=ORIGIN, tell=print, environ={}) as opened:
        api, listening = Api(opened), listen("127.0.0.1", 0)
        server = HttpServer(api.app(None), on_stop=api.stop)
        serving = asyncio.create_task(server.serve([listening]))
        async with httpx2.AsyncClient(base_url=address_of(listening), timeout=60) as client:
            asking = asyncio.create_task(client.post("/sessions/ada/prompts", json={"intent": "go"}))
            await through("asked")
            async with client.stream("GET", "/sessions/ada/events") as response:
                lines = response.aiter_lines()
                await anext(lines)
                server.stop()
                assert [line async for line in lines]
            answer = await asking
            assert (answer.status_code, answer.json()["error"]) == (503, "stopping")
        await serving


async def test_a_client_that_leaves_cancels_nothing(serving) -> None:
    async with serving("[waits]") as client:
        key = {"Idempotency-Key": "k"}
        leaving = asyncio.create_task(client.post("/cast", json={"intent": "go"}, headers=key))
        await through("asked")
        leaving.cancel()
        await asyncio.wait([leaving])
        await say("still here")
        assert (await client.post("/cast", json={"intent": "go"}, headers=key)).json()["answer"] == "still here"


async def test_a_reader_that_leaves_or_does_not_read_holds_up_nobody(serving) -> None:
    async with serving('[says("x" * 200_000)] * 40 + [waits]') as client:
        await client.post("/sessions/ada/prompts", json={"intent": "begin"})
        async with client.stream("GET", "/sessions/ada/events?after=0") as idle:
            async for _ in idle.aiter_raw():
                break  # it stays connected, and reads no more
            for _ in range(39):
                await client.post("/sessions/ada/prompts", json={"intent": "more"})
            await client.post("/sessions/ada/prompts", json={"intent": "wait", "wait": False})
            await through("asked")
        await say("done")
        events = await until_the_end(client, "ada", after=0, episodes=41)
        assert events[-1]["text"] == "done"


async def test_an_episode_is_cancelled_for_good(serving) -> None:
    async with serving("[hangs]") as client:
        asking = asyncio.create_task(
            client.post("/sessions/ada/prompts", json={"intent": "go"}, headers={"Idempotency-Key": "k"})
        )
        await through("asked")
        assert (await client.post("/sessions/ada/cancel", json={"prompt": "k"})).status_code == 202
        answer = (await asking).json()
        assert (answer["ending"], answer["answer"]) == ("cancelled", None)
        assert (await client.post("/sessions/ada/cancel")).status_code == 202
        thread = (await client.get("/sessions/ada/thread")).json()
        assert [turn["ending"] for turn in thread["turns"]] == [thread["ending"]] == ["cancelled"]


async def test_a_thread_can_be_read_and_forked(serving) -> None:
    async with serving('[says("hello"), says("bye"), says("other")]') as client:
        for intent in ("one", "two"):
            await client.post("/sessions/ada/prompts", json={"intent": intent})
        thread = (await client.get("/sessions/ada/thread")).json()
        assert [(turn["intent"], turn["utterance"]) for turn in thread["turns"]] == [("one", "hello"), ("two", "bye")]
        assert thread["ending"] == "terminated"
        forked = await client.post("/sessions/ada/forks", json={"turn": 0, "session": "bob"})
        assert (forked.status_code, forked.json()) == (201, {"session": "bob", "forked_from": "ada"})
        await client.post("/sessions/bob/prompts", json={"intent": "three"})
        turns = (await client.get("/sessions/bob/thread")).json()["turns"]
        assert [turn["utterance"] for turn in turns] == ["hello", "other"]
        lines = (await client.get("/sessions/bob/loom")).text.splitlines()
        assert [json.loads(line)["utterance"] for line in lines] == ["hello", "bye", "other"]
        for wrong, status in (
            ({"turn": 9}, 404),
            ({"turn": "nobody"}, 404),
            ({"turn": 0, "session": "bob"}, 409),
            ({"turn": None}, 422),
        ):
            assert (await client.post("/sessions/ada/forks", json=wrong)).status_code == status


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b'{"intent', 400, "not_json"),
        (b"", 415, "not_json"),
        (b'{"intent": "\xff"}', 400, "not_json"),
        (b'{"intent": "\\ud800"}', 400, "not_json"),
        (b"[" * 100_000, 422, "bad_request"),
        (b'{"intent": "go", "x":' + b"[" * 100_000, 422, "bad_request"),
        (b'{"intent": 1}', 422, "bad_request"),
        (b'{"intent": ""}', 422, "bad_request"),
        (b'{"intent": " "}', 422, "intent_required"),
        (b'{"intent": "go", "wards": []}', 422, "bad_request"),
        (b'{"intent": "go", "session": ""}', 400, "bad_session"),
        (b'{"intent": "' + b"x" * BODY_LIMIT + b'"}', 413, "too_large"),
    ],
)
async def test_a_request_that_cannot_be_met_says_why(serving, body, status, error) -> None:
    async with serving('[says("well")]') as client:
        response = await client.post("/cast", content=body, headers=JSON if body else {})
        assert (response.status_code, response.json()["error"]) == (status, error)
        assert response.json()["message"]
        assert (await client.post("/cast", json={"intent": "go"})).json()["answer"] == "well"


async def test_a_body_without_a_length_is_bounded_too(serving) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(BODY_LIMIT // 100_000 + 2):
            yield b"x" * 100_000

    async with serving("[]") as client:
        assert (await client.post("/cast", content=endless(), headers=JSON)).status_code == 413


async def test_what_is_no_json_or_no_key_is_refused(serving) -> None:
    async with serving("[]") as client:
        form = await client.post("/cast", content=b"{}", headers={"Content-Type": "text/plain"})
        assert form.status_code == 415
        for key in ("a b", "x" * 129):
            refused = await client.post("/cast", json={"intent": "go"}, headers={"Idempotency-Key": key})
            assert (refused.status_code, refused.json()["error"]) == (400, "bad_key")


async def test_what_is_not_there_is_said_to_be_missing(serving) -> None:
    async with serving("[]") as client:
        for method, path in (("GET", "events"), ("GET", "thread"), ("GET", "loom"), ("POST", "cancel")):
            response = await client.request(method, f"/sessions/nobody/{path}")
            assert (response.status_code, response.json()["error"]) == (404, "unknown_session")
        assert (await client.get("/nowhere")).json()["error"] == "no_such_route"
        assert (await client.get("/cast")).status_code == 405
        for wrong in ("x", "1.x", "9" * 40):
            mark = {"Last-Event-ID": wrong}
            await client.post("/sessions/ada/prompts", json={"intent": "go"})
            assert (await client.get("/sessions/ada/events", headers=mark)).status_code == 400
        assert (await client.get("/sessions/ada/events?after=-1")).status_code == 400


async def test_only_the_right_token_opens(serving) -> None:
    async with serving('[says("well")]', token="0123456789abcdef") as client:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic 0123456789abcdef"}):
            response = await client.post("/cast", json={"intent": "go"}, headers=headers)
            assert (response.status_code, response.json()["error"]) == (401, "wrong_token")
        right = {"Authorization": "Bearer 0123456789abcdef", "Host": "coven.example"}
        assert (await client.post("/cast", json={"intent": "go"}, headers=right)).status_code == 200
        assert (await client.get("/health")).json()["ok"] is True


async def test_without_a_token_no_name_of_somebody_else_is_answered(serving) -> None:
    async with serving("[]") as client:
        for host in ("evil.example", "evil.example:80", "[evil", "127.0.0.1.evil.example"):
            response = await client.post("/cast", json={"intent": "go"}, headers={"Host": host})
            assert (response.status_code, response.json()["error"]) == (403, "wrong_host")


async def test_the_document_describes_what_comes(serving) -> None:
    async with serving('[says("well")]') as client:
        document = (await client.get("/openapi.json")).json()
        validate(document)
        assert document == json.loads(json.dumps(openapi_document(document["info"]["version"])))
        from jsonschema import Draft202012Validator

        answer = (await client.post("/cast", json={"intent": "go"})).json()
        schemas = {"components": document["components"]}
        Draft202012Validator({"$ref": "#/components/schemas/Answer", **schemas}).validate(answer)
        thread = (await client.get(f"/sessions/{answer['session']}/thread")).json()
        Draft202012Validator({"$ref": "#/components/schemas/ThreadTold", **schemas}).validate(thread)
        for _, event in await read_events(client, answer["session"], {"after": 0}):
            Draft202012Validator({"$ref": "#/components/schemas/Event", **schemas}).validate(event)


def test_an_open_address_needs_a_token(coven, project, monkeypatch) -> None:
    monkeypatch.delenv("COVEN_HTTP_TOKEN", raising=False)
    refused = coven("serve", "--host", "0.0.0.0")
    assert (refused.code, "COVEN_HTTP_TOKEN" in refused.err) == (2, True)
    monkeypatch.setenv("COVEN_HTTP_TOKEN", "short")
    assert "at least 16" in coven("serve", "--host", "0.0.0.0").err


def test_an_address_that_is_taken_is_said_so(coven, project) -> None:
    with listen("127.0.0.1", 0) as taken:
        refused = coven("serve", "--port", taken.getsockname()[1])
    assert (refused.code, "in use" in refused.err) == (1, True)


def test_an_episode_outlives_its_server_and_the_journals_theirs(start, scripted, project) -> None:
    scripted("[waits]")
    key = {"Idempotency-Key": "k"}
    serving = start("serve", "--port", "0")
    url = serving.wait_for("http://", "stderr").split(" · ")[-1].strip()
    asked = httpx2.post(f"{url}/sessions/ada/prompts", json={"intent": "go", "wait": False}, headers=key)
    assert asked.status_code == 202
    (project / "asked").read_text()
    serving.signal(signal.SIGKILL)
    serving.end()

    again = start("serve", "--port", "0")
    url = again.wait_for("http://", "stderr").split(" · ")[-1].strip()
    (project / "asked").read_text()  # it goes on by itself
    os.kill(int((project / ".coven" / "nats.pid").read_text()), signal.SIGKILL)
    (project / "go").write_text("here I am")
    answer = httpx2.post(f"{url}/sessions/ada/prompts", json={"intent": "go"}, headers=key, timeout=60).json()
    assert answer["answer"] == "here I am"
    again.signal(signal.SIGTERM)
    assert again.end().code == 0


async def read_events(
    client: httpx2.AsyncClient, session: str, query: dict[str, Any], headers: dict[str, str] | None = None
) -> list[tuple[str | None, dict[str, Any]]]:
    """The events up to the end of the next episode, each with its id."""
    async with client.stream(
        "GET", f"/sessions/{session}/events", params={**query, "once": "true"}, headers=headers
    ) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        text = (await response.aread()).decode()
    return [parsed(block) for block in text.split("\n\n") if block and not block.startswith(":")]


async def until_the_end(
    client: httpx2.AsyncClient, session: str, *, after: int, episodes: int = 1
) -> list[dict[str, Any]]:
    """The events behind a position, up to the end of so many episodes."""
    events: list[dict[str, Any]] = []
    async with client.stream("GET", f"/sessions/{session}/events?after={after}") as response:
        block: list[str] = []
        async for line in response.aiter_lines():
            if line:
                block.append(line)
                continue
            if block and not block[0].startswith(":"):
                events.append(parsed("\n".join(block))[1])
                episodes -= events[-1]["event"] == "FinalResponseEvent"
            block = []
            if not episodes:
                break
    return events


def parsed(block: str) -> tuple[str | None, dict[str, Any]]:
    fields = dict(line.split(": ", 1) for line in block.splitlines())
    event = json.loads(fields["data"])
    assert fields["event"] == event["event"]
    return fields.get("id"), event
