"""Appending: pipelined against `publish_async`, batches of 500 against a raw atomic batch."""

from __future__ import annotations

import asyncio
import time

from benchmarks.entries import BODY, asked, registry
from benchmarks.harness import Profile, Result, compare, fresh_name, fresh_store, running_server, take_turns
from benchmarks.raw import Window, connected, make_stream
from journals import Draft

_SESSIONS = 2000
_BATCH = 500


async def run(profile: Profile, scale: float) -> list[Result]:
    count = int((20_000 if profile == "process" else 4_000) * scale)
    batches = max(2, int(20 * scale))

    async with running_server(profile) as server:

        async def ours() -> float:
            async with fresh_store(server) as store:
                journal = await store.open("a", registry())
                numbers = iter(range(count))

                async def worker(session: str) -> None:
                    for number in numbers:
                        await journal.append(asked(number), session=session)

                sessions = [f"s{number}" for number in range(_SESSIONS)]
                await asyncio.gather(*(journal.append(asked(), session=session) for session in sessions))
                began = time.perf_counter()
                await asyncio.gather(*map(worker, sessions))
                return count / (time.perf_counter() - began)

        async def publish_async() -> float:
            async with connected(server) as client:
                name = fresh_name()
                await make_stream(client, name)
                jetstream = client.jetstream(publish_async_max_pending=4000)
                began = time.perf_counter()
                futures = [await jetstream.publish_async(f"{name}.{n % _SESSIONS}", BODY) for n in range(count)]
                await asyncio.gather(*futures)
                return count / (time.perf_counter() - began)

        async def own_window() -> float:
            async with connected(server) as client:
                name, window = fresh_name(), Window(client)
                await make_stream(client, name)
                await window.start()
                began = time.perf_counter()
                for number in range(count):
                    await window.publish(f"{name}.{number % _SESSIONS}", BODY)
                await window.finish()
                return count / (time.perf_counter() - began)

        async def our_batches() -> float:
            async with fresh_store(server) as store:
                journal = await store.open("a", registry())
                began = time.perf_counter()
                for batch in range(batches):
                    drafts = [Draft(entry=asked(n), session="s", id=f"{batch}-{n}") for n in range(_BATCH)]
                    await journal.append_all(drafts)
                return batches * _BATCH / (time.perf_counter() - began)

        async def raw_batches() -> float:
            async with connected(server) as client:
                name = fresh_name()
                await make_stream(client, name, allow_atomic=True)
                began = time.perf_counter()
                for batch in range(batches):
                    for number in range(1, _BATCH):
                        headers = {"Nats-Batch-Id": f"b{batch}", "Nats-Batch-Sequence": str(number)}
                        await client.publish(f"{name}.s", BODY, headers=headers)
                    headers = {
                        "Nats-Batch-Id": f"b{batch}",
                        "Nats-Batch-Sequence": str(_BATCH),
                        "Nats-Batch-Commit": "1",
                    }
                    await client.request(f"{name}.s", BODY, headers=headers, timeout=30)
                return batches * _BATCH / (time.perf_counter() - began)

        singles = await take_turns(
            {"coven": ours, "nats-py publish_async": publish_async, "nats-py, own window": own_window}, 5
        )
        together = await take_turns({"coven": our_batches, "nats-py atomic batch": raw_batches}, 5)
    return [
        *compare("append, pipelined", profile, "entries/s", singles, {"nats-py publish_async": 1.0}),
        *compare("append_all of 500", profile, "entries/s", together, {"nats-py atomic batch": 0.7}),
    ]
