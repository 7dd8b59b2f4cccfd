"""The way to the journals: an embedded server is started, joined, brought back and taken over."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from contextlib import asynccontextmanager

import pytest

from coven.configuration import configure
from coven.lifecycle import ServiceChanged, State, system_registry
from coven.link import Join, NotRunning, linked
from journals import FolderTaken, StoreUnavailable


@pytest.fixture
def config(project):
    return configure(project / "coven.yaml", {}).config


@asynccontextmanager
async def watching(link):
    watch = asyncio.create_task(link.watch())
    try:
        yield watch
    finally:
        watch.cancel()
        await asyncio.wait([watch])


async def write(link, name: str) -> None:
    journal = await link.store.open("coven", system_registry())
    await journal.append(ServiceChanged(service=name, state=State.RUNNING, host="test"), session="s")


async def written(link) -> list[str]:
    journal = await link.store.open("coven", system_registry())
    return [record.entry.service async for record in journal.read()]


async def test_whoever_comes_first_starts_the_server_and_others_join_it(config):
    async with linked(config, Join.ALLOWED) as first, linked(config, Join.ALLOWED) as second:
        assert first.server is not None
        assert second.server is None
        assert (first.where.split()[0], second.where.split()[0]) == ("embedded", "shared")
        await write(first, "a")
        assert await written(second) == ["a"]


async def test_two_that_come_at_the_same_time_find_each_other(config):
    async def hold(done: asyncio.Event, started: asyncio.Queue[bool]) -> None:
        async with linked(config, Join.ALLOWED) as link:
            started.put_nowait(link.server is not None)
            await done.wait()

    done, started = asyncio.Event(), asyncio.Queue[bool]()
    tasks = [asyncio.create_task(hold(done, started)) for _ in range(4)]
    assert sorted([await started.get() for _ in tasks]) == [False, False, False, True]
    done.set()
    await asyncio.gather(*tasks)


async def test_a_whole_coven_does_not_join(config):
    async with linked(config, Join.NEVER):
        with pytest.raises(FolderTaken):
            async with linked(config, Join.NEVER):
                pass


async def test_a_looker_on_waits_for_the_coven(config):
    async def look() -> list[str]:
        async with linked(config, Join.WAIT) as link:  # it may be there before anything is written
            journal = await link.store.open("coven", system_registry())
            await journal.wait_for(lambda record: record.kind == "ServiceChanged", timeout=60)
            return await written(link)

    looking = asyncio.create_task(look())
    async with linked(config, Join.NEVER) as link:
        await write(link, "a")
        assert await looking == ["a"]


async def test_who_looks_for_what_comes_is_told_that_nothing_will(config):
    with pytest.raises(NotRunning, match=r"no coven runs in .*; start it with `coven run`"):
        async with linked(config, Join.RUNNING):
            pass
    async with linked(config, Join.NEVER) as link, linked(config, Join.RUNNING) as looking:
        await write(link, "a")
        assert await written(looking) == ["a"]


async def test_a_server_that_dies_is_brought_back_with_all_that_was_acknowledged(config):
    async with linked(config, Join.NEVER) as link, watching(link):
        await write(link, "before")
        before = link.server.pid
        os.kill(before, signal.SIGKILL)
        await write(link, "after")
        assert await written(link) == ["before", "after"]
        assert link.server.pid != before


async def test_a_server_that_cannot_write_is_started_again_ever_later_and_given_up(config):
    class Clock:
        slept: list[float] = []

        def now(self) -> float:
            return 0.0

        async def sleep(self, seconds: float) -> None:
            self.slept.append(seconds)

    room = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with linked(config, Join.NEVER, clock=Clock()) as link:
        await write(link, "acknowledged")
        resource.prlimit(link.server.pid, resource.RLIMIT_FSIZE, (1 << 14, room[1]))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, room[1]))  # for those that are started after it
        writing = asyncio.create_task(write(link, "x" * (1 << 15)))
        try:
            with pytest.raises(StoreUnavailable, match=r"could not write its store; .*6 times within 60 s.* the disk"):
                await link.watch()
            assert Clock.slept == [0.2, 0.4, 0.8, 1.6, 3.2]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, room)
            writing.cancel()
            await asyncio.wait([writing])
        await link.server.restart()
        assert "acknowledged" in await written(link)


async def test_when_the_one_who_started_it_leaves_another_one_takes_the_server_over(config):
    first = linked(config, Join.ALLOWED)
    leaving = await first.__aenter__()
    async with (
        linked(config, Join.ALLOWED) as second,
        watching(second),
        linked(config, Join.ALLOWED) as third,
        watching(third),
    ):
        await write(leaving, "from the first")
        await first.__aexit__(None, None, None)
        await write(second, "from the second")
        await write(third, "from the third")
        assert [link.server is not None for link in (second, third)].count(True) == 1
        assert await written(third) == ["from the first", "from the second", "from the third"]


async def test_a_server_elsewhere_is_only_connected_to(config, project, nats_server):
    url = nats_server.url.replace("://", f"://{nats_server.token}@")
    config = configure(project / "coven.yaml", {}, nats=url).config
    async with linked(config, Join.NEVER) as link, watching(link):
        await write(link, "a")
        assert link.where == f"NATS at {nats_server.url}"
        assert nats_server.token not in repr(link)
        assert not (project / ".coven").exists()


async def test_a_server_elsewhere_that_is_away_is_an_error(config, project):
    config = configure(project / "coven.yaml", {}, nats="nats://127.0.0.1:1").config
    with pytest.raises(StoreUnavailable, match="no NATS server answers"):
        async with linked(config, Join.NEVER):
            pass
