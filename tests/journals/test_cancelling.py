"""A cancellation is never lost, however close it comes to an answer of the server; and a loss is heard of at once."""

from __future__ import annotations

import asyncio

import pytest
from nats.aio.transport import TcpTransport

from journals import StoreUnavailable
from journals._jetstream import _connection
from journals._jetstream._client import Delivery
from journals._jetstream._connection import Connection


@pytest.fixture
async def connection(nats_server):
    connection = await Connection.open(nats_server.url, token=nats_server.token, credentials=None, patience=0.3)
    yield connection
    await connection.close()


async def test_a_request_that_is_cancelled_together_with_its_reply_is_cancelled(connection: Connection):
    asker, receivers = connection._asker, connection.client._receivers
    (number,) = [number for number, receiver in receivers.items() if receiver == asker._answered]

    def cancelling(delivery: Delivery) -> None:
        asker._answered(delivery)
        task.cancel()  # the reply is there, and not yet taken

    receivers[number] = cancelling
    for _ in range(20):
        task = asyncio.create_task(connection.request("$JS.API.INFO"))
        await asyncio.wait([task])
        assert task.cancelled()
        assert not asker._questions


async def test_a_question_is_asked_again_at_once_when_its_connection_is_cut(connection: Connection):
    for _ in range(5):
        waiting = asyncio.create_task(connection.request("nobody.hears.this", timeout=60))
        while not connection._asker._questions:
            await asyncio.wait([waiting], timeout=0)
        connection._asker.lost()
        assert (await asyncio.wait_for(connection.api("INFO"), 60))["type"].endswith("account_info_response")
        with pytest.raises(StoreUnavailable, match="does not answer nobody"):
            await asyncio.wait_for(waiting, 60)


async def test_closing_ends_whoever_waits(connection: Connection):
    waiting = asyncio.create_task(connection.request("$JS.API.INFO", timeout=60))
    while not connection._asker._questions:
        await asyncio.wait([waiting], timeout=0)
    await connection.close()
    with pytest.raises(StoreUnavailable, match="has been closed here"):
        await asyncio.wait_for(waiting, 60)


async def test_a_connection_that_the_server_ends_for_good_says_so_at_once(connection: Connection):
    await connection.client._process_err("'user authentication expired'")
    with pytest.raises(StoreUnavailable, match="closed for good, after the server said: nats: user"):
        while True:
            await connection.request("$JS.API.INFO")


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """No server listens, and each refusal comes together with a cancellation that it hides. Set when one is awaited."""
    awaited = asyncio.Event()

    async def connect(*_: object, **__: object) -> None:
        awaited.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionRefusedError from None

    monkeypatch.setattr(TcpTransport, "connect", connect)
    return awaited


async def test_closing_ends_an_attempt_to_reconnect(connection: Connection, refusing: asyncio.Event):
    await connection.client._process_op_err(ConnectionResetError("lost"))
    await asyncio.wait_for(refusing.wait(), 60)
    attempt = connection.client._reconnection_task
    await connection.close()
    await asyncio.wait_for(attempt, 60)
    assert connection.client.is_closed


async def test_connecting_ends_with_its_time(refusing: asyncio.Event, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_connection, "_CONNECT_TIMEOUT", 0.05)
    opening = asyncio.create_task(Connection.open("127.0.0.1:1", token=None, credentials=None, patience=1))
    with pytest.raises(StoreUnavailable, match="no NATS server answers"):
        await asyncio.wait_for(opening, 60)


async def test_closing_while_the_connection_is_being_lost_raises_nothing(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
):
    async def lost() -> None:
        raise ConnectionResetError("Connection lost")

    monkeypatch.setattr(connection.client._transport, "drain", lost)
    connection.client._pending_data_size = 1
    await connection.close()
    assert connection.client.is_closed
