"""Streams that lose their front, their place or their connection under a running process."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from nats.aio.msg import Msg

from journals import JetStreamStore, Journal, StoreMismatch, StoreUnavailable
from journals._jetstream import _direct, _reading
from journals._jetstream._connection import Connection
from journals._jetstream._direct import read_subject
from journals._jetstream._reading import Reading, read_all
from journals._jetstream._streams import Stream
from tests.journals.kinds import Said, registry
from tests.journals.servers import external


@pytest.fixture
async def store(nats_server, coven_name):
    async with await JetStreamStore.connect(nats_server.url, coven_name, token=nats_server.token) as store:
        yield store


@pytest.fixture
async def journal(store: JetStreamStore) -> Journal:
    return await store.open("chat", registry())


@pytest.fixture
async def forgetful(store: JetStreamStore, journal: Journal) -> Stream:
    """A stream of three messages that may be purged, as time does with a short-lived one."""
    name = f"{store.coven}-forgetful"
    config = {"name": name, "subjects": [f"{name}.>"], "allow_direct": True}
    info = await store.connection.api(f"STREAM.CREATE.{name}", config)
    for number in range(3):
        await store.connection.client.jetstream().publish(f"{name}.in.s", b"%d" % number)
    return Stream(store.connection, f"{name}.", info)


async def forget(stream: Stream, keep: int = 0) -> None:
    await stream.connection.api(f"STREAM.PURGE.{stream.name}", {"keep": keep})


async def gathered(groups: Any) -> list[int]:
    async with asyncio.timeout(60):
        return [stored.position async for group in groups for stored in group]


async def test_reading_what_is_forgotten_in_part_gives_the_rest(forgetful: Stream):
    await forget(forgetful, keep=1)
    assert await gathered(read_all(forgetful, 0, 3)) == [3]
    assert await gathered(read_subject(forgetful, "in.s", 0, None)) == [3]


async def test_reading_what_is_all_forgotten_ends(forgetful: Stream):
    await forget(forgetful)
    assert await gathered(read_all(forgetful, 0, 3)) == []
    assert await gathered(read_subject(forgetful, "in.s", 0, None)) == []


@pytest.mark.parametrize("replicated", [True, False])
async def test_reading_what_is_forgotten_while_it_is_read_ends(
    forgetful: Stream, monkeypatch: pytest.MonkeyPatch, replicated: bool
):
    batch = _direct._batch

    async def too_late(*arguments: Any) -> Any:
        await forget(forgetful)
        return await batch(*arguments)

    monkeypatch.setattr(_direct, "_batch", too_late)
    forgetful.replicated = replicated
    assert await gathered(read_subject(forgetful, "in.s", 0, None)) == []


async def test_a_reading_waits_for_a_replica_that_lags(forgetful: Stream, monkeypatch: pytest.MonkeyPatch):
    batch, asked = _direct._batch, []

    async def lagging(stream: Stream, subject: str, start: int) -> Any:
        group, ended = await batch(stream, subject, start)
        asked.append(start)
        return (group[:1], ended) if len(asked) == 1 else ([], True) if len(asked) == 2 else (group, ended)

    monkeypatch.setattr(_direct, "_batch", lagging)
    forgetful.replicated = True
    assert await gathered(read_subject(forgetful, "in.s", 0, None)) == [1, 2, 3]
    assert asked == [1, 2, 2]


async def test_a_reading_that_ran_dry_asks_again_before_anybody_misses_it(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(_reading, "_SECOND", 5_000_000)  # a minute's wait expires in 0.3 s
    expired = asyncio.Event()
    stream: Stream = journal.log._stream  # type: ignore[attr-defined]
    async with Reading(stream, 0) as reading:
        consumer, status, count = reading._consumer, reading._status, 0

        def counting(headers: dict[str, str]) -> None:
            nonlocal count
            status(headers)
            count += headers.get("Status") == "408"
            if count == 3:
                expired.set()

        monkeypatch.setattr(reading, "_status", counting)
        reading._watchdog.cancel()  # type: ignore[union-attr]
        group = asyncio.create_task(reading.next_group())
        await asyncio.wait_for(expired.wait(), 60)
        await journal.append(Said(text="at last"), session="s")
        assert [stored.position for stored in await asyncio.wait_for(group, 60)] == [1]
        assert reading._consumer == consumer


async def test_a_reading_that_cannot_begin_leaves_nothing_behind(store: JetStreamStore, journal: Journal):
    stream: Stream = journal.log._stream  # type: ignore[attr-defined]
    lost = Stream(stream.connection, "x", {"config": {"name": "nowhere", "num_replicas": 1}, "created": ""})
    before = len(store.connection.on_lost)
    reading = Reading(lost, 0)
    with pytest.raises(StoreUnavailable, match="'nowhere' cannot be read"):
        await reading.__aenter__()
    assert len(store.connection.on_lost) == before
    assert reading._watchdog is not None
    assert reading._watchdog.cancelled()


async def test_a_stream_that_was_made_anew_is_noticed_by_who_knew_the_old_one(store: JetStreamStore, journal: Journal):
    claim = await journal.claim("s", "me")
    for number in range(5):
        await journal.append(Said(text="old"), session="s", id=str(number))
    async with aclosing(journal.tail()) as tail:
        for _ in range(5):
            await anext(tail)
        await store.connection.api(f"STREAM.DELETE.{store.coven}-chat")
        new = await store.open("chat", registry())
        for attempt in (
            journal.append(Said(text="new"), session="s", id="5"),
            journal.append(Said(text="new"), session="s", id="5", expect=claim),
            journal.claim("s", "me"),
            journal.end(),
        ):
            with pytest.raises(StoreMismatch, match="restart this process"):
                await asyncio.wait_for(attempt, 60)
        with pytest.raises((StoreMismatch, StoreUnavailable)):  # the latter if it looked while there was none
            await asyncio.wait_for(anext(tail), 60)
    assert (await new.append(Said(text="new"), session="s", id="5")).record.position == 1
    async with aclosing(new.tail()) as following:
        assert (await anext(following)).entry == Said(text="new")


async def test_a_stream_that_is_gone_is_an_error_and_not_an_endless_wait(store: JetStreamStore, journal: Journal):
    await journal.append(Said(text="x"), session="s")
    await store.connection.api(f"STREAM.DELETE.{store.coven}-chat")
    for attempt in (journal.append(Said(text="y"), session="s"), journal.last(session="s"), journal.claim("t", "me")):
        with pytest.raises(StoreUnavailable, match="stream not found"):
            await asyncio.wait_for(attempt, 60)


async def test_a_cluster_that_is_choosing_a_leader_is_waited_for(tmp_path: Path):
    async with external(tmp_path, "") as port:
        connection = await Connection.open(f"nats://127.0.0.1:{port}", token=None, credentials=None, patience=60)
        client: Any = connection.client
        asked: list[str] = []

        async def answer(message: Msg) -> None:
            asked.append(message.subject)
            error = {"code": 503, "err_code": 10008, "description": "JetStream system temporarily unavailable"}
            await message.respond(json.dumps({"error": error} if len(asked) < 3 else {"streams": 1}).encode())

        try:
            await client.subscribe("$JS.API.INFO", cb=answer)
            assert await connection.api("INFO") == {"streams": 1}
            assert len(asked) == 3
            connection.patience = -1
            asked.clear()
            assert (await connection.api("INFO"))["error"]["err_code"] == 10008
        finally:
            await connection.close()
