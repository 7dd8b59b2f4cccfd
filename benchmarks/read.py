"""Reading 100,000 records into typed entries, against a raw ordered consumer's callback."""

from __future__ import annotations

import asyncio
import time

from nats.aio.msg import Msg

from benchmarks.entries import asked, registry
from benchmarks.harness import Profile, Result, compare, fresh_store, running_server, take_turns
from benchmarks.raw import connected
from journals import Draft


async def run(profile: Profile, scale: float) -> list[Result]:
    count = max(1000, int(100_000 * scale) // 1000 * 1000)
    async with running_server(profile) as server, fresh_store(server) as store:
        journal = await store.open("a", registry())
        for part in range(count // 1000):
            session = f"s{part % 100}"
            await journal.append_all([Draft(entry=asked(n), session=session, id=f"{part}-{n}") for n in range(1000)])

        async def ours() -> float:
            began, seen, last = time.perf_counter(), 0, 0
            async for record in journal.read():
                assert record.position == last + 1, "a gap"
                seen, last = seen + 1, record.position
            assert seen == count
            return count / (time.perf_counter() - began)

        async def ordered_callback() -> float:
            async with connected(server) as client:
                seen, finished = 0, asyncio.Event()

                async def receive(message: Msg) -> None:
                    nonlocal seen
                    seen += 1
                    if seen == count:
                        finished.set()

                began = time.perf_counter()
                await client.jetstream().subscribe(
                    f"{store.coven}.a.>",
                    cb=receive,
                    ordered_consumer=True,
                    pending_msgs_limit=-1,
                    pending_bytes_limit=-1,
                )
                await finished.wait()
                return count / (time.perf_counter() - began)

        figures = await take_turns({"coven": ours, "nats-py ordered callback": ordered_callback}, 3)
    return compare("read into entries", profile, "entries/s", figures, {"nats-py ordered callback": 0.5})
