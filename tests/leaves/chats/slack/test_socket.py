"""Socket Mode, where Slack does not do its part."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from coven.testing import ManualClock
from leaves.chats.slack import socket
from leaves.chats.slack.socket import RECONNECT_S, Socket


@pytest.mark.parametrize("says", ["nothing", "{}"])
async def test_a_connection_that_slack_does_not_greet_is_closed_before_the_next_one(says, monkeypatch):
    monkeypatch.setattr(socket, "_HELLO_S", 0.2)
    closed = asyncio.Event()

    async def serve(request: web.Request) -> web.WebSocketResponse:
        connection = web.WebSocketResponse()
        await connection.prepare(request)
        if says != "nothing":
            await connection.send_str(says)
        await connection.receive()
        closed.set()
        return connection

    app = web.Application()
    app.router.add_get("/", serve)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]

    async def address() -> str:
        return f"ws://{host}:{port}/"

    clock = ManualClock()
    taking = asyncio.create_task(Socket(address, lambda received: None, clock).run(lambda: None))
    async with asyncio.timeout(30):
        while not closed.is_set():
            await clock.until_pending()
            clock.advance(RECONNECT_S)
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)
    await runner.cleanup()
