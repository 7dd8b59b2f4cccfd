"""Whoever asks the server hears at once that it is lost, that the store is closed, or that it is not permitted."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from journals import EmbeddedServer, JetStreamStore, Journal, StoreRefused, StoreUnavailable, Unacknowledged
from journals._jetstream import _direct, _publisher
from journals._jetstream._connection import Connection
from tests.journals.kinds import Said, registry
from tests.journals.servers import accounts, external

NEVER = 3600.0
SOON = 60


@pytest.fixture(autouse=True)
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer is given up for its silence, so that only what is heard of can end a waiting."""
    monkeypatch.setattr(_direct, "_TIMEOUT", NEVER)
    monkeypatch.setattr(_publisher, "ACK_TIMEOUT", NEVER)
    monkeypatch.setattr(Connection.request, "__kwdefaults__", {"timeout": NEVER})


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    async with EmbeddedServer(tmp_path, durability="process") as server:
        yield server


@pytest.fixture
async def store(server: EmbeddedServer) -> AsyncIterator[JetStreamStore]:
    async with await JetStreamStore.connect(server.url, "hearth", token=server.token) as store:
        yield store


@pytest.fixture
async def journal(store: JetStreamStore) -> Journal:
    journal = await store.open("chat", registry())
    for number in range(3):
        await journal.append(Said(text="x"), session="s", id=str(number))
    return journal


def stop(server: EmbeddedServer) -> None:
    """Let the server stand still; it does so when this returns."""
    os.kill(server.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, server.pid, os.WSTOPPED | os.WNOWAIT)


async def session(journal: Journal) -> list[str]:
    return [record.id async for record in journal.read(session="s")]


async def subject(journal: Journal) -> list[int]:
    return [stored.position async for group in journal.log.read("in.s", 0, None) for stored in group]


async def everything(journal: Journal) -> list[str]:
    return [record.id async for record in journal.read()]


def questions(journal: Journal) -> list[asyncio.Task[Any]]:
    """One of each sort."""
    asked: list[Awaitable[Any]] = [
        session(journal),
        subject(journal),
        everything(journal),
        journal.last(session="s"),
        journal.get(2),
        journal.end(),
        journal.append(Said(text="x"), session="s", id="0"),
        journal.append(Said(text="y"), session="t", id="a"),
        journal.claim("u", "me"),
    ]
    return [asyncio.ensure_future(each) for each in asked]


async def on_their_way(store: JetStreamStore, tasks: list[asyncio.Task[Any]]) -> None:
    """Wait until the tasks have sent what a server that stands still will not answer."""
    while len(store.connection._asker._questions) + len(store._publisher._waiting) < len(tasks):
        await asyncio.wait(tasks, timeout=0)


async def test_what_is_under_way_when_the_server_dies_is_asked_again_as_soon_as_it_is_back(
    server: EmbeddedServer, store: JetStreamStore, journal: Journal
):
    stop(server)
    asked = questions(journal)
    await on_their_way(store, asked)
    os.kill(server.pid, signal.SIGKILL)
    await server.wait_failed()
    await server.restart()
    answers = await asyncio.wait_for(asyncio.gather(*asked), SOON)
    assert answers[:2] == [["0", "1", "2"], [1, 2, 3]]
    assert answers[4].id == "1"
    assert not answers[6].created
    assert answers[7].created


async def test_closing_ends_whatever_waits_though_the_server_stands_still(
    server: EmbeddedServer, store: JetStreamStore, journal: Journal
):
    tail = asyncio.create_task(anext(journal.tail(3)))
    stop(server)
    asked = [*questions(journal), tail]
    await on_their_way(store, asked[:-1])
    # more than the system takes for a server that reads nothing
    waiting = [asyncio.ensure_future(store._publisher.publish(f"nobody.{n}", {}, bytes(500_000))) for n in range(40)]
    await asyncio.wait_for(store.close(), SOON)
    answers = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), SOON)
    os.kill(server.pid, signal.SIGCONT)
    assert all(isinstance(future.exception(), Exception) for future in waiting)
    for answer in answers:
        with pytest.raises(StoreUnavailable, match="has been closed here"):
            raise answer


async def test_after_an_error_that_ends_the_connection_for_good_everything_says_so(
    server: EmbeddedServer, store: JetStreamStore, journal: Journal
):
    stop(server)
    asked = questions(journal)
    await on_their_way(store, asked)
    await store.connection.client._process_err("'user authentication expired'")
    answers = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), SOON)
    os.kill(server.pid, signal.SIGCONT)
    answers += await asyncio.wait_for(asyncio.gather(*questions(journal), return_exceptions=True), SOON)
    for answer in answers:
        with pytest.raises(StoreUnavailable, match=r"closed for good, after the server said: .* expired; start again"):
            raise answer


async def test_a_server_that_stands_still_is_left_for_one_that_answers(
    server: EmbeddedServer, store: JetStreamStore, journal: Journal
):
    """What the old connection has not taken is given up: waiting for that could last for ever."""
    stop(server)
    waiting = [asyncio.ensure_future(store._publisher.publish(f"nobody.{n}", {}, bytes(500_000))) for n in range(40)]
    lost = asyncio.Event()
    store.connection.on_lost.append(lost.set)
    await store.connection.client._process_op_err(ConnectionResetError("stale"))
    await asyncio.wait_for(lost.wait(), SOON)
    os.kill(server.pid, signal.SIGCONT)
    assert await asyncio.wait_for(session(journal), SOON) == ["0", "1", "2"]
    assert all(isinstance(future.exception(), Exception) for future in waiting)


async def test_a_loss_that_only_the_client_knows_of_yet_is_waited_for_and_keeps_nobody_from_working(
    store: JetStreamStore, journal: Journal
):
    client: Any = store.connection.client
    client._status = Client.RECONNECTING
    asked = questions(journal)[:6]
    for _ in range(20):
        assert not (await asyncio.wait(asked, timeout=0))[0]
    client._status = Client.CONNECTED
    assert (await asyncio.wait_for(asyncio.gather(*asked), SOON))[:2] == [["0", "1", "2"], [1, 2, 3]]


@pytest.mark.parametrize("denied", ["$JS.API.DIRECT.GET.hearth-chat", "$JS.API.STREAM.INFO.hearth-chat"])
async def test_a_question_that_is_not_permitted_says_so(tmp_path: Path, denied: str):
    async with external(tmp_path, accounts(f'publish: {{deny: ["{denied}"]}}')) as port:
        url = f"nats://app:canary@127.0.0.1:{port}"
        async with await JetStreamStore.connect(url, "hearth") as store:
            with pytest.raises(StoreRefused, match=r"does not permit asking '\$JS\.API\.") as caught:
                journal = await store.open("chat", registry())
                await asyncio.wait_for(journal.append(Said(text="x"), session="s"), SOON)
                await asyncio.wait_for(session(journal), SOON)
            assert "canary" not in str(caught.value)
            assert not store.connection._asker._questions


async def test_a_server_that_does_not_let_us_hear_its_answers_is_said(tmp_path: Path):
    async with external(tmp_path, accounts('subscribe: {deny: ["_INBOX.>"]}')) as port:
        url = f"nats://app:canary@127.0.0.1:{port}"
        async with await JetStreamStore.connect(url, "hearth") as store:
            for _ in range(2):
                with pytest.raises(StoreRefused, match=r"does not permit listening on '_INBOX\."):
                    await asyncio.wait_for(store.open("chat", registry()), SOON)


async def test_a_stream_that_no_longer_serves_reads_is_said_when_patience_ends(server: EmbeddedServer):
    async with await JetStreamStore.connect(server.url, "hearth", token=server.token, patience=0.1) as store:
        journal = await store.open("chat", registry())
        await journal.append(Said(text="x"), session="s")
        config = (await store.connection.api("STREAM.INFO.hearth-chat"))["config"]
        await store.connection.api("STREAM.UPDATE.hearth-chat", {**config, "allow_direct": False})
        with pytest.raises(StoreUnavailable, match="is `allow_direct` still on"):
            await asyncio.wait_for(session(journal), SOON)


async def test_what_came_in_part_before_a_connection_was_given_up_is_forgotten(store: JetStreamStore, journal: Journal):
    client: Any = store.connection.client
    await client._process_op_err(ConnectionResetError("stale"))
    client._parser.take(b"MSG _INBOX.x 1 1000\r\nonly the beginning")
    assert await asyncio.wait_for(session(journal), SOON) == ["0", "1", "2"]


async def test_a_write_that_a_standing_server_never_answers_ends_unacknowledged_and_later_ones_go_on(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(_publisher, "ACK_TIMEOUT", 0.05)
    async with await JetStreamStore.connect(server.url, "hearth", token=server.token) as store:
        journal = await store.open("chat", registry())
        stop(server)
        first = asyncio.ensure_future(store._publisher.publish("nobody.1", {}, b""))
        with pytest.raises(Unacknowledged, match="no acknowledgement within"):
            await asyncio.wait_for(first, SOON)
        assert not store._publisher._waiting
        os.kill(server.pid, signal.SIGCONT)
        monkeypatch.setattr(_publisher, "ACK_TIMEOUT", NEVER)
        assert (await asyncio.wait_for(journal.append(Said(text="x"), session="s", id="next"), SOON)).created
