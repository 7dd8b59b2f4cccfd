"""`coven serve`: a coven behind HTTP until it is stopped."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from coven.entrance import entrance
from coven.http.app import ORIGIN, Api
from coven.http.server import HttpServer
from coven.recipe import CannotServe, Recipe
from coven.running import loop_factory
from coven.signals import StopSignals
from coven.terminal import tell
from leaves.loopback import is_loopback
from leaves.serving import address_of, listen

TOKEN = "COVEN_HTTP_TOKEN"


def serve(recipe: Recipe, host: str, port: int, token: str | None) -> None:
    """Serve until stopped. Raises `CannotServe`, `OSError`, and what `entrance` raises."""
    if token is None and not is_loopback(host):
        raise CannotServe(
            f"{host} can be reached by others, who could then use every gate of this coven: set {TOKEN} to a long "
            "random text that clients send as `Authorization: Bearer …`, or stay with --host 127.0.0.1"
        )
    if token is not None and (not token.isascii() or len(token) < 16):
        raise CannotServe(f"{TOKEN} has at least 16 ASCII characters, e.g. those of `openssl rand -hex 32`")
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(recipe, host, port, token, tell))


async def _serve(recipe: Recipe, host: str, port: int, token: str | None, say: Callable[[str], None]) -> None:
    task = asyncio.current_task()
    assert task is not None
    with StopSignals(task) as signals, listen(host, port) as listening:
        try:
            async with entrance(recipe, origin=ORIGIN, tell=say, watch=True) as opened:
                api = Api(opened)
                server = HttpServer(api.app(token), on_stop=api.stop)
                say(f"{opened.describe} · {address_of(listening)}")
                await _until_stopped(server, listening, opened.serving)
        except asyncio.CancelledError:
            if not signals.asked:
                raise


async def _until_stopped(server: HttpServer, listening: socket.socket, services: asyncio.Task[None]) -> None:
    """Serve until this is cancelled, or what the requests need has failed; raises what made it fail."""
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await asyncio.wait([serving, services], return_when=asyncio.FIRST_COMPLETED)
        if services.done():
            services.result()
        if serving.done():
            serving.result()
    finally:
        server.stop()
        await asyncio.wait([serving])
