"""One route hop: source journal to target journal, decode, map one field, encode, exactly once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec
from nats.aio.msg import Msg

from benchmarks.entries import Asked, Told, asked, registry
from benchmarks.harness import (
    Profile,
    Result,
    compare,
    fresh_name,
    fresh_store,
    running_server,
    take_turns,
)
from benchmarks.raw import Pull, Window, connected, make_stream
from covenants.applied import CovenantApplied
from covenants.dead_letters import dead_letter_registry
from covenants.router import Router
from covenants.routing import Approval, TransformFailed
from journals import Draft, EmbeddedServer, Entry, EntryRegistry, JetStreamStore, Journal, Record


class MapOneField(msgspec.Struct, frozen=True):
    """`Asked -> Told` with `map: {body: text}`, as the configuration compiles it."""

    name: str = "asked"
    source_instance: str = "a"
    source_kind: str = "Asked"
    target_instance: str | None = "b"
    fault_instance: str | None = None
    from_beginning: bool = False
    max_hops: int | None = None
    short_lived: bool = False
    approval: Approval | None = None

    def apply(self, record: Record[Asked]) -> list[Entry]:
        return [Told(body=record.entry.text, number=record.entry.number)]

    def fault(self, record: Record[Asked], failure: TransformFailed) -> Entry:
        raise AssertionError


async def router_of(store: JetStreamStore) -> Router:
    return Router(
        [MapOneField()],
        {name: await store.open(name, registry()) for name in "ab"},
        short_lived={},
        system=await store.open("coven", EntryRegistry((CovenantApplied,))),
        dead_letters=await store.open("dead-letters", dead_letter_registry()),
        owner="benchmark",
    )


async def run(profile: Profile, scale: float) -> list[Result]:
    count = max(1000, int(30_000 * scale) // 1000 * 1000)
    async with running_server(profile) as server:

        async def ours() -> float:
            async with fresh_store(server) as store:
                source, target = await store.open("a", registry()), await store.open("b", registry())
                for part in range(count // 1000):
                    drafts = [Draft(entry=asked(n), session=f"s{part}", id=str(n)) for n in range(1000)]
                    await source.append_all(drafts)
                router, ready = await router_of(store), asyncio.Event()
                routing = asyncio.create_task(router.run(ready.set))
                await ready.wait()
                began = time.perf_counter()
                while router.routed < count:  # noqa: ASYNC110 - nothing to wait for, and nothing more to disturb it
                    await asyncio.sleep(0.005)
                took = time.perf_counter() - began
                await stop(routing)
                assert await _arrived(target) == count
                return count / took

        async def raw() -> float:
            async with connected(server) as client:
                took, _ = await _raw_hop(client, count)
                return count / took

        async def faststream() -> float:
            return count / 10 / await _faststream_took(server, count // 10)

        fast = await take_turns({"coven": ours, "nats-py pull + pipelined": raw, "FastStream": faststream}, 3)
    return compare("route hop", profile, "entries/s", fast, {"nats-py pull + pipelined": 0.5, "FastStream": 6.0})


async def _arrived(target: Journal) -> int:
    """How many stand in the target."""
    numbers = [record.entry.number async for record in target.read()]  # type: ignore[attr-defined]
    return len(numbers)


async def stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _raw_hop(client: object, count: int) -> tuple[float, list[float]]:
    """Pull into an own inbox, publish pipelined with message ids, acknowledge all with one message at the end."""
    from nats.aio.client import Client

    assert isinstance(client, Client)
    source, target = fresh_name(), fresh_name()
    await make_stream(client, source)
    await make_stream(client, target)
    window = Window(client)
    await window.start()
    encode = registry().encode
    for number in range(count):
        await window.publish(f"{source}.in", encode(asked(number)))
    await window.finish()
    out = Window(client)
    await out.start()
    finished = asyncio.Event()
    decode, encoder = msgspec.json.Decoder(Asked).decode, msgspec.json.Encoder()
    last: list[Msg] = []

    async def receive(message: Msg) -> None:
        entry = decode(message.data)
        body = encoder.encode(Told(body=entry.text, number=entry.number))
        await out.publish(f"{target}.in", body, {"Nats-Msg-Id": message.reply.split(".")[5]})
        last[:] = [message]
        if out.sent == count:
            finished.set()

    began = time.perf_counter()
    pull = Pull(client, source, 500, receive)
    await pull.start(ack_policy="all", durable_name="c", max_ack_pending=count + 1)
    await finished.wait()
    await out.finish()
    await last[0].ack()
    return time.perf_counter() - began, []


async def faststream_hop(
    server: EmbeddedServer, source: str, target: str
) -> tuple[object, Callable[[], Awaitable[None]]]:
    import logging

    from faststream.nats import JStream, NatsBroker, PullSub

    logging.getLogger("faststream").setLevel(logging.ERROR)
    broker = NatsBroker(server.url, token=server.token, logger=None)
    a = JStream(name=source, subjects=[f"{source}.>"], declare=False)
    b = JStream(name=target, subjects=[f"{target}.>"], declare=False)

    @broker.subscriber(f"{source}.in", stream=a, pull_sub=PullSub(batch_size=500, timeout=0.1), durable="hop")
    @broker.publisher(f"{target}.in", stream=b)
    async def hop(message: dict[str, object]) -> dict[str, object]:
        return {"kind": "Told", "body": message["text"], "number": message["number"]}

    return broker, broker.start


async def _faststream_took(server: EmbeddedServer, count: int) -> float:
    source, target = fresh_name(), fresh_name()
    async with connected(server) as client:
        await make_stream(client, source)
        await make_stream(client, target)
        encode = registry().encode
        window = Window(client)
        await window.start()
        for number in range(count):
            await window.publish(f"{source}.in", encode(asked(number)))
        await window.finish()
        broker, start = await faststream_hop(server, source, target)
        seen, finished = 0, asyncio.Event()

        async def receive(message: Msg) -> None:
            nonlocal seen
            seen += 1
            if seen == count:
                finished.set()

        await client.subscribe(f"{target}.in", cb=receive)
        began = time.perf_counter()
        await start()
        await finished.wait()
        took = time.perf_counter() - began
        await broker.stop()  # type: ignore[attr-defined]
        return took
