"""A cancellation is never lost, however close it comes to an answer of the server."""

from __future__ import annotations

import asyncio

from journals._jetstream._connection import Connection


async def test_a_request_that_is_cancelled_together_with_its_reply_is_cancelled(nats_server):
    connection = await Connection.open(nats_server.url, token=nats_server.token, credentials=None, patience=5)
    await connection.request("$JS.API.INFO")
    waiting = connection.client._resp_map  # the futures of the client's requests
    for _ in range(20):
        task = asyncio.create_task(connection.request("$JS.API.INFO"))
        while not (replies := [future for future in waiting.values() if not future.done()]):
            await asyncio.wait([task], timeout=0)
        replies[0].add_done_callback(lambda _, task=task: task.cancel())  # when the reply is there, and not yet taken
        await asyncio.wait([task])
        assert task.cancelled()
    await connection.close()
