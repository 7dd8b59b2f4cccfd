"""A cancellation is never lost, however close it comes to an answer of the server."""

from __future__ import annotations

import asyncio

from journals._jetstream._connection import Connection


async def test_a_request_that_is_cancelled_together_with_its_reply_is_cancelled(nats_server):
    connection = await Connection.open(nats_server.url, token=nats_server.token, credentials=None, patience=5)
    cancelled = 0
    for turns in range(400):
        task = asyncio.create_task(connection.request("$JS.API.INFO"))
        for _ in range(turns % 40):
            await asyncio.sleep(0)
        if turns % 40 > 20:  # wake in the same turn of the loop in which the reply is read
            replies = connection.client._resp_map
            while replies and not all(future.done() for future in replies.values()):
                await asyncio.sleep(0)
        done_before = task.done()
        task.cancel()
        await asyncio.wait([task])
        assert done_before or task.cancelled()
        cancelled += task.cancelled()
    assert cancelled
    await connection.close()
