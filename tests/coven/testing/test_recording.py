"""Recorded exchanges: what a provider said once, said again without a network, a key, or a secret in the file."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from branches.agents.circle import circle
from branches.agents.crystal import CrystalError, CrystalRequest, CrystalResponse, Message
from branches.agents.gates import DONE
from branches.agents.permission import VARIABLE as FORBID
from branches.agents.wards import Ward
from coven import Call, Cantrip, cast, gate
from coven.testing import (
    CassetteMiss,
    CassetteMissing,
    ModelRequestForbidden,
    forbid_model_requests,
    recorded,
    recording_wanted,
)
from coven.testing.providers import ProviderServer, Reply
from coven.testing.recording.cassette import Body, body_of
from coven.testing.recording.scrubbing import Scrubber, in_query
from tests.leaves.crystals.providers import ANTHROPIC, LOCAL, OPENAI, PROVIDERS, Provider

KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY"}
KEYS["openrouter"] = "OPENROUTER_API_KEY"
CANARY = "canary-0123456789"
ASKED = (Message("system", "Be terse."), Message("user", "What does a.txt say? \u2615"))
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ProviderServer]:
    monkeypatch.delenv(FORBID, raising=False)
    async with ProviderServer() as running:
        yield running


@pytest.fixture(params=PROVIDERS, ids=lambda each: each.name)
def provider(request: pytest.FixtureRequest) -> Provider:
    return request.param


@pytest.fixture(params=[False, True], ids=["request", "stream"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cassettes" / "one.json"


async def converse(crystal, streamed: bool) -> list[CrystalResponse | str]:
    """Two requests, the second with what came of the first, and the pieces that were streamed."""
    pieces: list[str] = []
    first = await crystal.invoke(CrystalRequest(ASKED, (DONE,)), pieces.append if streamed else None)
    said = Message("assistant", first.content, first.tool_calls, model=first.model, opaque=first.opaque)
    results = (Message("tool", "milk", tool_call_id=call.id) for call in first.tool_calls)
    more = CrystalRequest((*ASKED, said, *results), (DONE,))
    second = await crystal.invoke(more, pieces.append if streamed else None)
    await crystal.close()
    return [first, second, "".join(pieces)]


TALK = (
    Reply(thinking="Look.", text="I look.", calls=(("done", '{"answer": "\u2615"}'),), prompt_tokens=9),
    Reply(text="It says milk. \u2615", prompt_tokens=20, cached_tokens=4, completion_tokens=7),
)


async def record(file: Path, server: ProviderServer, provider: Provider, streamed: bool = False) -> list:
    server.replies = list(TALK)
    with recorded(file, record=True):
        return await converse(provider.make(server.url), streamed)


async def test_a_conversation_is_the_same_again_without_a_network(provider, server, file, streamed):
    first = await record(file, server, provider, streamed)
    requests = len(server.requests)
    with forbid_model_requests(), recorded(file) as tape:
        assert await converse(provider.make(NOWHERE), streamed) == first
        assert tape.left == 0
    assert len(server.requests) == requests == 2


@pytest.mark.parametrize("provider", [each for each in PROVIDERS if each is not LOCAL], ids=lambda each: each.name)
async def test_neither_a_key_nor_a_secret_stands_in_the_file_and_none_is_needed(
    provider: Provider, server: ProviderServer, file: Path, monkeypatch: pytest.MonkeyPatch
):
    variable = KEYS[provider.name]
    monkeypatch.setenv(variable, server.key)
    monkeypatch.setenv("DATABASE_PASSWORD", CANARY)
    crystal, text = make(provider, server.url), f'the password is {CANARY}"'
    server.replies = [Reply(text=text)]
    with recorded(file, record=True, scrub=["Ada Lovelace"]):
        request = CrystalRequest((Message("user", f"Ada Lovelace here: {CANARY}, {server.key}?"),))
        assert (await crystal.invoke(request)).content == text
    await crystal.close()
    kept = text_of(file)
    assert not [secret for secret in (server.key, CANARY, "ada lovelace", "user-agent") if secret in kept.lower()]
    assert msgspec.json.decode(kept)["keys"] == [variable]
    monkeypatch.delenv(variable)
    with recorded(file):
        crystal = make(provider, NOWHERE)
        request = CrystalRequest((Message("user", "[scrubbed] here: [scrubbed], [scrubbed]?"),))
        assert (await crystal.invoke(request)).content == 'the password is [scrubbed]"'
        await crystal.close()
    assert variable not in os.environ


@pytest.mark.parametrize("type", ["application/json", "text/event-stream"])
def test_secrets_are_known_by_where_they_stand(type: str):
    scrubber = Scrubber({"DB_PASS": "hunter2hunter2", "GITHUB_PAT": "ghp_0123456789", "MY_API_KEY_2": "second-key"})
    assert scrubber.target("/v1", "key=a&q=b") == "/v1?key=[scrubbed]&q=b"
    assert in_query("key=a&q=b&access_token=c") == ["a", "c"]
    named = "hunter2hunter2 ghp_0123456789 second-key"
    said = rf'{{"api_key": "a\"b", "deep": [{{"Access_Token":"c"}}], "q": "{named}", "token": "the"}}'.encode()
    kept = scrubber.body(body_of(said, {"content-type": type})).raw.decode()
    assert msgspec.json.decode(kept) == {
        "api_key": "[scrubbed]",
        "deep": [{"Access_Token": "[scrubbed]"}],
        "q": "[scrubbed] [scrubbed] [scrubbed]",
        "token": "the",
    }
    schema = {"properties": {"password": {"type": "string"}}, "arguments": '{"password": "x"}'}
    body = body_of(msgspec.json.encode(schema), {"content-type": "application/json"})
    assert scrubber.body(body).json == {**schema, "arguments": '{"password": "[scrubbed]"}'}


def text_of(file: Path) -> str:
    return file.read_text()


def make(provider: Provider, url: str):
    """A crystal whose key stands in the environment."""
    from leaves.catalogue import CATALOGUE, LeafKind

    leaf = CATALOGUE.of(LeafKind.CRYSTAL)[provider.name]
    path = {"openai": "/v1", "openrouter": "/api/v1"}.get(provider.name, "")
    return leaf.load()(leaf.options(base_url=url + path))


async def test_a_request_that_differs_is_told_with_the_nearest_one(provider, server, file, streamed):
    await record(file, server, provider, streamed)
    crystal = provider.make(NOWHERE)
    request = CrystalRequest((ASKED[0], Message("user", "What does b.txt say?")), (DONE,))
    with pytest.raises(CassetteMiss) as missed, recorded(file):
        await crystal.invoke(request, (lambda text: None) if streamed else None)
    message = str(missed.value)
    assert re.search(r"The nearest is exchange (1 of 2|2 of 3):", message)  # a local endpoint is asked for its models
    assert any(line.startswith("-") and "a.txt" in line for line in message.splitlines())
    assert any(line.startswith("+") and "b.txt" in line for line in message.splitlines())
    assert "COVEN_RECORD=1" in message
    await crystal.close()


async def test_an_exchange_answers_once(server, file):
    server.replies = [Reply(text="one"), Reply(text="two")]
    crystal = LOCAL.make(server.url, model="m")
    with recorded(file, record=True):
        for _ in range(2):
            await crystal.invoke(CrystalRequest(ASKED))
    with (
        pytest.raises(CassetteMiss, match="once more: exchange 1 has the same request, recorded 2 times"),
        recorded(file),
    ):
        assert [(await crystal.invoke(CrystalRequest(ASKED))).content for _ in range(2)] == ["one", "two"]
        await crystal.invoke(CrystalRequest(ASKED))
    await crystal.close()


async def test_a_miss_that_somebody_swallows_is_raised_at_the_end(server, file):
    await record(file, server, OPENAI)
    crystal = OPENAI.make(NOWHERE)
    with pytest.raises(CassetteMiss), recorded(file), suppress(AssertionError):
        await crystal.invoke(CrystalRequest((Message("user", "else"),)))
    await crystal.close()


async def test_failures_are_recorded_too(provider, server, file, streamed):
    server.replies = [
        Reply(status=429, message="slow down", headers={"retry-after": "7", "set-cookie": "id=1"}),
        Reply(text="half of " * 40, breaks_after=100),
    ]

    async def fail() -> list[tuple[str, float | None]]:
        crystal, failures = provider.make(server.url, **({"model": "m"} if provider is LOCAL else {})), []
        for _ in range(2):
            with pytest.raises(CrystalError) as failed:
                await crystal.invoke(CrystalRequest(ASKED), (lambda text: None) if streamed else None)
            failures.append((failed.value.code, failed.value.retry_after_s))
        await crystal.close()
        return failures

    with recorded(file, record=True):
        first = await fail()
    assert first[0] == ("rate_limited", 7.0)
    assert "set-cookie" not in text_of(file)
    if streamed:  # what broke before an answer began is none, and is not kept
        with recorded(file):
            assert await fail() == first


async def test_recording_asks_a_real_model_and_answering_does_not(server, file):
    await record(file, server, ANTHROPIC)
    with forbid_model_requests():
        with recorded(file):
            await converse(ANTHROPIC.make(NOWHERE), False)
        with pytest.raises(ModelRequestForbidden), recorded(file, record=True):
            await converse(ANTHROPIC.make(NOWHERE), False)


async def test_a_recording_of_a_block_that_fails_changes_nothing(server, file):
    await record(file, server, OPENAI)
    before = file.read_bytes()
    with pytest.raises(ZeroDivisionError), recorded(file, record=True):
        raise ZeroDivisionError
    assert file.read_bytes() == before


async def test_what_differs_from_run_to_run_can_be_left_out(server, file):
    def dateless(body):
        body["messages"] = [m for m in body["messages"] if m["role"] != "system"]
        return body

    crystal = LOCAL.make(server.url, model="m")
    server.replies = [Reply(text="milk")]
    with recorded(file, record=True, normalise=dateless):
        await crystal.invoke(CrystalRequest((Message("system", "It is Monday."), ASKED[1])))
    with recorded(file, normalise=dateless):
        answer = await crystal.invoke(CrystalRequest((Message("system", "It is Tuesday."), ASKED[1])))
    assert answer.content == "milk"
    await crystal.close()


async def test_a_cast_with_gates_is_answered_from_its_file(provider, server, file):
    def read(path: str) -> str:
        """Read a file."""
        return f"this is {path}"

    async def run(url: str) -> str | None:
        crystal = provider.make(url, **({"model": "m"} if provider is LOCAL else {}))
        gates = circle(["done", gate(read)], [Ward(max_turns=5)])
        ended = await cast(Cantrip(crystal, Call(system_prompt="Be brief."), gates), "read a and b")
        await crystal.close()
        return ended.answer

    calls = (("read", '{"path": "a"}'), ("read", '{"path": "b"}'))
    server.replies = [Reply(thinking="Hm.", calls=calls), Reply(calls=(("done", '{"answer": "read"}'),))]
    with recorded(file, record=True):
        assert await run(server.url) == "read"
    with recorded(file):
        assert await run(NOWHERE) == "read"


def test_a_file_that_is_not_there_or_is_none_is_told(tmp_path: Path):
    with pytest.raises(CassetteMissing, match="COVEN_RECORD=1"), recorded(tmp_path / "none.json"):
        pass
    (tmp_path / "bad.json").write_text('{"cassette": 2}')
    with pytest.raises(ValueError, match=r"bad\.json is no cassette"), recorded(tmp_path / "bad.json"):
        pass


def test_the_environment_asks_for_recordings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("COVEN_RECORD", "1")
    assert recording_wanted()
    with recorded(tmp_path / "new.json") as tape:
        assert repr(tape).endswith("new.json: recording>")
    assert (tmp_path / "new.json").exists()
    monkeypatch.setenv("COVEN_RECORD", "0")
    assert not recording_wanted()


@given(st.binary() | st.text().map(str.encode), st.sampled_from(["application/json", "text/event-stream", ""]))
def test_every_body_comes_back_as_it_was(raw: bytes, type: str):
    body = body_of(raw, {"content-type": type})
    again = msgspec.json.decode(msgspec.json.encode(body), type=Body)
    if body.json is msgspec.UNSET:
        assert again.raw == raw
    else:
        assert msgspec.json.decode(again.raw) == msgspec.json.decode(raw)
