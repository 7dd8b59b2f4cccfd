"""Reading one session among 100,000: of ten records, and of a thousand."""

from __future__ import annotations

import asyncio
import random
import time

from nats.aio.msg import Msg

from benchmarks.entries import asked, registry
from benchmarks.harness import Profile, Result, alone, compare, fresh_store, percentile, running_server, take_turns
from benchmarks.raw import Pull, api, connected
from journals import Draft, Lane
from journals._log import Message


async def run(profile: Profile, scale: float) -> list[Result]:
    sessions = max(500, int(100_000 * scale))
    async with running_server(profile) as server, fresh_store(server) as store:
        journal = await store.open("a", registry())
        draws = random.Random(7)
        await _fill(journal, sessions, long_session=1000)
        small = [f"s{draws.randrange(sessions)}" for _ in range(25)]

        async def read_small(session: str) -> float:
            began = time.perf_counter()
            records = [record async for record in journal.read(session=session)]
            assert len(records) == 10, len(records)
            return (time.perf_counter() - began) * 1000

        async def raw_small(session: str) -> float:
            return await _raw_read(server, f"{store.coven}-a", f"{store.coven}.a.in.{session}", 10)

        async def ours() -> float:
            return percentile([await read_small(session) for session in small], 0.5)

        async def raw() -> float:
            return percentile([await raw_small(session) for session in small], 0.5)

        async def our_long() -> float:
            began = time.perf_counter()
            assert len([record async for record in journal.read(session="long")]) == 1000
            return (time.perf_counter() - began) * 1000

        async def raw_long() -> float:
            return await _raw_read(server, f"{store.coven}-a", f"{store.coven}.a.in.long", 1000)

        tens = await take_turns({"coven": ours, "nats-py, same filter": raw}, 3)
        thousands = await take_turns({"coven": our_long, "nats-py, same filter": raw_long}, 5)
    wanted = {"nats-py, same filter": 1.5}
    return [
        *compare(f"session of 10 among {sessions:,}", profile, "ms", tens, wanted, "lower"),
        alone(f"session of 10 among {sessions:,}", profile, "ms", percentile(tens["coven"], 0.5), 10.0),
        *compare(f"session of 1,000 among {sessions:,}", profile, "ms", thousands, wanted, "lower"),
    ]


async def _fill(journal: object, sessions: int, long_session: int) -> None:
    """Ten records a session, spread over the whole journal, and one long session spread as well."""
    from journals import Journal

    assert isinstance(journal, Journal)
    every = max(1, sessions * 10 // long_session)
    written = longs = 0
    batch: list[Message] = []
    for turn in range(10):
        for number in range(sessions):
            draft = Draft(entry=asked(turn), session=f"s{number}", id=f"{turn}")
            batch.append(journal._envelope.pack(draft, Lane.IN, 1.0))
            written += 1
            if written % every == 0 and longs < long_session:
                draft = Draft(entry=asked(longs), session="long", id=str(longs))
                batch.append(journal._envelope.pack(draft, Lane.IN, 1.0))
                longs += 1
            if len(batch) >= 900:
                await journal.log.append_all(batch)
                batch = []
    if batch:
        await journal.log.append_all(batch)


async def _raw_read(server: object, stream: str, subject: str, count: int) -> float:
    """A pull consumer on the one literal subject, on a connection that stands already."""
    async with connected(server) as client:  # type: ignore[arg-type]
        seen, finished = 0, asyncio.Event()

        async def receive(message: Msg) -> None:
            nonlocal seen
            seen += 1
            if seen == count:
                finished.set()

        await api(client, "INFO")
        began = time.perf_counter()
        pull = Pull(client, stream, 500, receive)
        await pull.start(filter_subject=subject, ack_policy="none", mem_storage=True, inactive_threshold=5_000_000_000)
        await finished.wait()
        took = (time.perf_counter() - began) * 1000
        await api(client, f"CONSUMER.DELETE.{stream}.c")
        return took
