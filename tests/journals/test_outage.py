"""The server lost, back, full, too old, refusing: nothing acknowledged is lost, every error names a cure."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from journals import (
    Draft,
    EmbeddedServer,
    JetStreamStore,
    Journal,
    StoreFull,
    StoreMismatch,
    StoreRefused,
    StoreUnavailable,
)
from journals._jetstream import _connection, journal_settings
from tests.journals.kinds import Said, registry


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    async with EmbeddedServer(tmp_path, durability="process") as server:
        yield server


async def connect(server: EmbeddedServer, **options: float) -> JetStreamStore:
    return await JetStreamStore.connect(server.url, "hearth", token=server.token, **options)  # type: ignore[arg-type]


async def kill_and_restart(server: EmbeddedServer) -> None:
    os.kill(server.pid, signal.SIGKILL)
    await server.wait_failed()
    await server.restart()


async def numbers(journal: Journal) -> list[int]:
    return [record.entry.number async for record in journal.read()]  # type: ignore[attr-defined]


async def test_what_was_acknowledged_outlives_a_kill_of_the_server(server: EmbeddedServer) -> None:
    async with await connect(server) as store:
        journal = await store.open("chat", registry())
        for number in range(20):
            await journal.append(Said(text="x", number=number), session="s")
        await kill_and_restart(server)
        assert await numbers(journal) == list(range(20))


async def test_appends_under_way_happen_once_through_three_kills(server: EmbeddedServer) -> None:
    async with await connect(server) as store:
        journal = await store.open("chat", registry())
        done = 0

        async def write(session: str) -> None:
            nonlocal done
            for number in range(120):
                appended = await journal.append(Said(text="x", number=number), session=session, id=str(number))
                assert appended.created
                done += 1

        writing = asyncio.gather(*(write(f"s{n}") for n in range(5)))
        for wanted in (100, 250, 400):
            await journal.wait_for(_when(lambda wanted=wanted: done >= wanted), timeout=60)
            await kill_and_restart(server)
        await writing
        for number in range(5):
            found = [record.entry.number async for record in journal.read(session=f"s{number}")]  # type: ignore[attr-defined]
            assert found == list(range(120))


async def test_batches_under_way_are_written_whole_and_once_through_three_kills(server: EmbeddedServer) -> None:
    async with await connect(server) as store:
        journal = await store.open("chat", registry())
        done = 0

        async def write(session: str) -> None:
            nonlocal done
            for number in range(12):
                drafts = [Draft(entry=Said(text="x", number=n), session=session, id=f"{number}-{n}") for n in range(50)]
                assert all(appended.created for appended in await journal.append_all(drafts))
                done += 1

        writing = asyncio.gather(*(write(f"s{n}") for n in range(3)))
        for wanted in (5, 15, 25):
            await journal.wait_for(_when(lambda wanted=wanted: done >= wanted), timeout=60)
            await kill_and_restart(server)
        await writing
        for session in ("s0", "s1", "s2"):
            found = [(record.position, record.id) async for record in journal.read(session=session)]
            assert [id for _, id in found] == [f"{number}-{n}" for number in range(12) for n in range(50)]
            for start in range(0, 600, 50):
                assert found[start + 49][0] - found[start][0] == 49


def _when(condition: object):  # type: ignore[no-untyped-def]
    return lambda record: condition()  # type: ignore[operator]


async def test_a_tail_goes_on_behind_an_outage_without_gap_or_repeat(server: EmbeddedServer) -> None:
    async with await connect(server) as store, await connect(server) as other:
        journal, writer = await store.open("chat", registry()), await other.open("chat", registry())
        seen: list[int] = []
        reached = {50: asyncio.Event(), 100: asyncio.Event(), 150: asyncio.Event()}

        async def read() -> None:
            async with aclosing(journal.tail()) as tail:
                async for record in tail:
                    seen.append(record.entry.number)  # type: ignore[attr-defined]
                    if len(seen) in reached:
                        reached[len(seen)].set()
                    if len(seen) == 150:
                        return

        reading = asyncio.create_task(read())
        for part, goal in enumerate(reached):
            drafts = [
                Draft(entry=Said(text="x", number=part * 50 + n), session="s", id=f"{part}-{n}") for n in range(50)
            ]
            await writer.append_all(drafts)
            await asyncio.wait_for(reached[goal].wait(), 60)
            await kill_and_restart(server)
        await reading
        assert seen == list(range(150))


async def test_an_append_waits_for_a_server_that_comes_back(server: EmbeddedServer) -> None:
    async with await connect(server) as store:
        journal = await store.open("chat", registry())
        await journal.append(Said(text="x"), session="s", id="0")
        os.kill(server.pid, signal.SIGKILL)
        await server.wait_failed()
        waiting = asyncio.create_task(journal.append(Said(text="x", number=1), session="s", id="1"))
        await asyncio.wait({waiting}, timeout=0.05)
        assert not waiting.done()
        await server.restart()
        assert (await waiting).created
        assert await numbers(journal) == [0, 1]


async def test_patience_ends_with_a_message_that_says_what_to_do(server: EmbeddedServer) -> None:
    async with await connect(server, patience=0.1) as store:
        journal = await store.open("chat", registry())
        os.kill(server.pid, signal.SIGKILL)
        await server.wait_failed()
        with pytest.raises(StoreUnavailable, match="bring the server back"):
            await journal.append(Said(text="x"), session="s")


async def test_a_full_store_says_so_and_keeps_what_it_has(server: EmbeddedServer) -> None:
    async with await connect(server) as store:
        journal = await store.open("chat", registry())
        info = await store.connection.api("STREAM.INFO.hearth-chat")
        answer = await store.connection.api("STREAM.UPDATE.hearth-chat", {**info["config"], "max_bytes": 20_000})
        assert "error" not in answer
        written = 0
        with pytest.raises(StoreFull, match="what was acknowledged is safe"):
            for written in range(1000):
                await journal.append(Said(text="x" * 500, number=written), session="s", id=str(written))
        assert await numbers(journal) == list(range(written))
        await store.connection.api("STREAM.UPDATE.hearth-chat", {**info["config"], "max_bytes": -1})
        assert (await journal.append(Said(text="x" * 500, number=written), session="s", id=str(written))).created
        assert await numbers(journal) == list(range(written + 1))


async def test_nobody_there(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_connection, "_CONNECT_TIMEOUT", 3600)  # one that is there and slow is given more time
    with pytest.raises(StoreUnavailable, match=r"no NATS server answers at nats://127\.0\.0\.1:1 .*nats: embedded"):
        await JetStreamStore.connect("nats://127.0.0.1:1", "hearth")
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(said) == 1
    assert said[0].startswith("no NATS server answers at nats://127.0.0.1:1 yet (")


async def test_a_wrong_token_is_refused_and_not_repeated(server: EmbeddedServer) -> None:
    with pytest.raises(StoreRefused, match="refuses these credentials") as caught:
        await JetStreamStore.connect(server.url, "hearth", token="canary-secret")
    assert "canary-secret" not in str(caught.value)


@asynccontextmanager
async def a_server_that_says(info: bytes) -> AsyncIterator[str]:
    """A listener that greets like a NATS server and answers pings."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(info)
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.close()

    listener = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with listener:
        host, port = listener.sockets[0].getsockname()
        yield f"nats://{host}:{port}"


async def test_a_server_that_is_too_old() -> None:
    greeting = b'INFO {"server_id":"X","version":"2.9.21","max_payload":1048576,"headers":true,"proto":1}\r\n'
    async with a_server_that_says(greeting) as url:
        with pytest.raises(StoreMismatch, match=r"is 2\.9\.21; Coven needs 2\.14 or newer"):
            await JetStreamStore.connect(url, "hearth")


async def test_something_that_is_no_nats_server() -> None:
    async with a_server_that_says(b"HTTP/1.1 400 Bad Request\r\n\r\n") as url:
        with pytest.raises(StoreUnavailable, match="no NATS server answers"):
            await JetStreamStore.connect(url, "hearth")


async def test_a_stream_that_is_set_otherwise_is_refused(server: EmbeddedServer) -> None:
    async with await connect(server) as store:
        wrong = {"name": "hearth-chat", "subjects": ["hearth.chat.>"], "storage": "memory"}
        await store.connection.api("STREAM.CREATE.hearth-chat", wrong)
        with pytest.raises(StoreMismatch, match=r"storage is 'memory' and must be 'file'.*deny_delete"):
            await store.open("chat", registry())


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("max_age", 3_600_000_000_000, "max_age is 3600000000000 and must be 0"),
        ("allow_msg_ttl", True, "allow_msg_ttl is True and must not be set"),
        ("no_ack", True, "no_ack is True and must not be set"),
        ("persist_mode", "async", "persist_mode is 'async' and must not be set"),
        (
            "subject_transform",
            {"src": "hearth.chat.>", "dest": "hearth.chat.x.>"},
            "subject_transform is .* not be set",
        ),
    ],
)
async def test_a_stream_that_would_lose_what_was_acknowledged_is_refused(
    server: EmbeddedServer, setting: str, value: object, said: str
) -> None:
    async with await connect(server) as store:
        right = msgspec.to_builtins(journal_settings("hearth", "chat", replicas=1, short_lived=False))
        changed = {**right, setting: value}
        if setting == "persist_mode":  # the server has it alone only
            changed["allow_atomic"] = False
        created = await store.connection.api("STREAM.CREATE.hearth-chat", changed)
        assert "error" not in created
        with pytest.raises(StoreMismatch, match=said):
            await store.open("chat", registry())


async def test_a_short_lived_journal_may_have_another_age(server: EmbeddedServer) -> None:
    async with await connect(server) as store:
        wanted = msgspec.to_builtins(journal_settings("hearth", "chat-chunks", replicas=1, short_lived=True))
        await store.connection.api("STREAM.CREATE.hearth-chat-chunks", {**wanted, "max_age": 60_000_000_000})
        journal = await store.open("chat-chunks", registry(), short_lived=True)
        assert (await journal.append(Said(text="x"), session="s")).created


async def test_a_writer_goes_on_in_a_session_that_a_short_lived_journal_has_forgotten(server: EmbeddedServer) -> None:
    async with await connect(server) as store:
        wanted = msgspec.to_builtins(journal_settings("hearth", "chunks", replicas=1, short_lived=True))
        await store.connection.api("STREAM.CREATE.hearth-chunks", {**wanted, "max_age": 200_000_000})
        journal = await store.open("chunks", registry(), short_lived=True)
        await journal.append(Said(text="x"), session="s", id="a")
        while await journal.last(session="s"):  # until its time is over
            pass
        appended = await asyncio.wait_for(journal.append(Said(text="y"), session="s", id="b"), 60)
        assert appended.created


async def test_streams_refuse_deletion_and_keep_the_smallest_duplicate_window(server: EmbeddedServer) -> None:
    async with await connect(server) as store:
        journal = await store.open("chat", registry())
        await journal.append(Said(text="x"), session="s", id="a")
        config = (await store.connection.api("STREAM.INFO.hearth-chat"))["config"]
        assert config["duplicate_window"] == 100_000_000
        for call, body in (("STREAM.MSG.DELETE", {"seq": 1}), ("STREAM.PURGE", {})):
            answer = await store.connection.api(f"{call}.hearth-chat", body)
            assert "error" in answer
        assert await numbers(journal) == [0]


async def test_the_client_still_has_what_we_replace() -> None:
    from nats.aio.client import Client

    for name in ("_ps", "_process_msg", "_pending", "_pending_data_size", "_transport"):
        assert hasattr(Client(), name), f"nats-py has renamed {name}: see journals/_jetstream/_client.py"
