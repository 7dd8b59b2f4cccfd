"""How long one hop takes at a steady rate: from writing an entry until what became of it is read from the target.

Each side is read where its words are kept: ours by a tail of the target journal, FastStream's by an ordered consumer of
the target stream. A plain subscription hears of FastStream's before they are stored; that is shown beside it, and so
are two plain writes in a row, which is the least that an entry stored twice can take.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from nats.aio.msg import Msg

from benchmarks.entries import asked, registry
from benchmarks.harness import Profile, Result, compare, fresh_name, fresh_store, percentile, running_server
from benchmarks.hop import faststream_hop, router_of, stop
from benchmarks.raw import connected, make_stream
from journals import EmbeddedServer

_RATE = 200
_ROUNDS = 9
Arrived = Callable[[int], None]
Send = Callable[[int], Awaitable[object]]
Hop = Callable[[EmbeddedServer, Arrived], AbstractAsyncContextManager[Send]]


async def run(profile: Profile, scale: float) -> list[Result]:
    count = max(100, int(400 * scale))
    contestants: dict[str, Hop] = {
        "coven": _ours,
        "FastStream": lambda server, arrived: _faststream(server, arrived, stored=True),
        "FastStream, not stored yet": lambda server, arrived: _faststream(server, arrived, stored=False),
        "nats-py, two writes in a row": _two_writes,
    }
    rounds: dict[str, list[list[float]]] = {name: [] for name in contestants}
    async with running_server(profile) as server:
        for number in range(_ROUNDS + 1):  # the first one does not count: in it, everybody imports what it needs
            for name, hop in contestants.items():
                took = await _measured(server, hop, count)
                rounds[name] += [took] if number else []
    results: list[Result] = []
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        figures = {contestant: [percentile(took, share) for took in each] for contestant, each in rounds.items()}
        results += compare(f"route hop at {_RATE}/s, {name}", profile, "ms", figures, {"FastStream": 1.0}, "lower")
    return results


async def _measured(server: EmbeddedServer, hop: Hop, count: int) -> list[float]:
    """Milliseconds for each of so many hops, sent at a fixed rate whatever the answers take."""
    sent: dict[int, float] = {}
    took: list[float] = []
    finished = asyncio.Event()

    def arrived(number: int) -> None:
        took.append((time.perf_counter() - sent[number]) * 1000)
        if len(took) == count:
            finished.set()

    async with hop(server, arrived) as send, asyncio.TaskGroup() as sending:
        began = time.perf_counter()
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / _RATE - time.perf_counter()))
            sent[number] = time.perf_counter()
            sending.create_task(send(number))  # type: ignore[arg-type]
        await finished.wait()
    return took


@asynccontextmanager
async def _ours(server: EmbeddedServer, arrived: Arrived) -> AsyncIterator[Send]:
    async with fresh_store(server) as store:
        source, target = await store.open("a", registry()), await store.open("b", registry())
        ready = asyncio.Event()

        async def watch() -> None:
            async for record in target.tail():
                arrived(record.entry.number)  # type: ignore[attr-defined]

        routing = asyncio.create_task((await router_of(store)).run(ready.set))
        watching = asyncio.create_task(watch())
        await ready.wait()
        yield lambda number: source.append(asked(number), session=f"s{number % 50}", id=str(number))
        await stop(watching)
        await stop(routing)


@asynccontextmanager
async def _faststream(server: EmbeddedServer, arrived: Arrived, *, stored: bool) -> AsyncIterator[Send]:
    source, target = fresh_name(), fresh_name()
    async with connected(server) as client:
        await make_stream(client, source)
        await make_stream(client, target)
        broker, start = await faststream_hop(server, source, target)
        await start()

        async def receive(message: Msg) -> None:
            arrived(json.loads(message.data)["number"])

        jetstream, encode = client.jetstream(), registry().encode
        if stored:
            await jetstream.subscribe(f"{target}.in", stream=target, ordered_consumer=True, cb=receive)
        else:
            await client.subscribe(f"{target}.in", cb=receive)
        yield lambda number: jetstream.publish(f"{source}.in", encode(asked(number)))
        await broker.stop()  # type: ignore[attr-defined]


@asynccontextmanager
async def _two_writes(server: EmbeddedServer, arrived: Arrived) -> AsyncIterator[Send]:
    source, target = fresh_name(), fresh_name()
    async with connected(server) as client:
        await make_stream(client, source)
        await make_stream(client, target)
        jetstream, encode = client.jetstream(), registry().encode

        async def send(number: int) -> None:
            body = encode(asked(number))
            await jetstream.publish(f"{source}.in", body)
            await jetstream.publish(f"{target}.in", body)
            arrived(number)

        yield send
