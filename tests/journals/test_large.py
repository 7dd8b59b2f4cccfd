"""Large bodies: by content hash, once, as other NATS clients read them too."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from contextlib import aclosing
from typing import Any

import pytest

from journals import JetStreamStore, Journal, Store
from tests.journals.kinds import Said, registry

LARGE = "x" * 5 * 1024 * 1024


@pytest.fixture
async def jetstream(nats_server, coven_name):
    async with await JetStreamStore.connect(nats_server.url, coven_name, token=nats_server.token) as store:
        yield store


async def test_two_writers_at_once_store_one_body(store: Store):
    journals = [await store.open(name, registry()) for name in ("a", "b")]
    await asyncio.gather(*(journal.append(Said(text=LARGE), session="s", id="x") for journal in journals))
    for journal in journals:
        assert [record.entry async for record in journal.read()] == [Said(text=LARGE)]


async def test_other_clients_of_nats_read_it(jetstream: JetStreamStore):
    journal = await jetstream.open("chat", registry())
    await journal.append(Said(text=LARGE), session="s")
    client: Any = jetstream.connection.client
    objects = await client.jetstream().object_store(f"{jetstream.coven}-blobs")
    (info,) = await objects.list()
    found = await objects.get(info.name)
    assert hashlib.sha256(found.data).hexdigest() == info.name
    assert LARGE.encode() in found.data


async def test_what_others_wrote_in_its_place_is_written_over(jetstream: JetStreamStore):
    journal = await jetstream.open("chat", registry())
    client: Any = jetstream.connection.client
    body = b'{"kind":"Said","text":"' + LARGE.encode() + b'","number":0}'
    digest = hashlib.sha256(body).hexdigest()
    assert await journal.log.get_blob(digest) is None
    name = base64.urlsafe_b64encode(digest.encode()).decode()
    await client.jetstream().publish(f"$O.{jetstream.coven}-blobs.M.{name}", b"garbage")
    assert await journal.log.get_blob(digest) is None
    record = (await journal.append(Said(text=LARGE), session="s")).record
    assert await journal.log.get_blob(digest) == body
    assert await journal.get(record.position) == record


async def test_it_keeps_as_many_replicas_as_the_journals(jetstream: JetStreamStore):
    await jetstream.open("chat", registry())
    asked = jetstream._blobs._settings
    assert (asked.num_replicas, asked.deny_delete, asked.deny_purge) == (1, True, True)
    tripled = JetStreamStore(jetstream.connection, jetstream._publisher, "other", 3, lambda: 0.0)
    assert tripled._blobs._settings.num_replicas == 3


async def test_a_tail_gives_them_one_at_a_time(store: Store):
    journal = await store.open("chat", registry())
    texts = [LARGE, "small", "small", LARGE, "small"]
    for text in texts:
        await journal.append(Said(text=text), session="s")
    async with aclosing(journal.tail_groups()) as groups:
        sizes = [len(await anext(groups)) for _ in range(3)]
    assert sizes == [1, 3, 1]


async def test_many_readers_of_large_messages_do_not_cost_the_connection(jetstream: JetStreamStore):
    journals = [await jetstream.open(f"j{number}", registry()) for number in range(4)]
    for journal in journals:
        for number in range(40):
            await journal.append(Said(text="x" * 250_000, number=number), session="s")
    lost: list[None] = []
    jetstream.connection.on_lost.append(lambda: lost.append(None))

    async def count(journal: Journal, session: str | None) -> int:
        return len([record async for record in journal.read(session=session)])

    reading = [count(journal, session) for journal in journals for session in ("s", None) * 4]
    assert await asyncio.gather(*reading) == [40] * len(reading)
    assert not lost
