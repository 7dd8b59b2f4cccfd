"""The window of acknowledgements: every write ends, whatever is cancelled, refused, cut in half or not permitted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from journals import Draft, JetStreamStore, Journal, StoreRefused
from journals._jetstream import _publisher
from tests.journals.kinds import Said, registry
from tests.journals.servers import accounts, external


@pytest.fixture
async def store(nats_server, coven_name):
    async with await JetStreamStore.connect(nats_server.url, coven_name, token=nats_server.token) as store:
        yield store


@pytest.fixture
async def journal(store: JetStreamStore) -> Journal:
    return await store.open("chat", registry())


@pytest.mark.parametrize("seed", range(5))
async def test_whoever_is_cancelled_while_waiting_keeps_nobody_from_the_window(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, seed: int
):
    monkeypatch.setattr(_publisher, "WINDOW", 4)
    chance = random.Random(seed)
    tasks = [asyncio.create_task(journal.append(Said(text="x"), session=f"s{n}", id="a")) for n in range(200)]
    cancelled = [task for task in tasks if chance.random() < 0.9]
    for task in cancelled:
        if chance.random() < 0.1:
            await asyncio.wait([task], timeout=0)
        task.cancel()
    others = [task for task in tasks if task not in cancelled]
    async with asyncio.timeout(60):
        assert all([(await task).created for task in others])


async def test_an_acknowledgement_that_nobody_can_read_is_none(journal: Journal, store: JetStreamStore):
    await journal.append(Said(text="x"), session="s", id="a")
    client: Any = store.connection.client
    await client.publish(f"{store._publisher._prefix}{store._publisher._number + 1}", b"garbage")
    assert (await journal.append(Said(text="y"), session="s", id="b")).created
    assert [record.id async for record in journal.read()] == ["a", "b"]


async def test_a_batch_whose_beginning_is_lost_is_written_again(
    journal: Journal, store: JetStreamStore, monkeypatch: pytest.MonkeyPatch
):
    send_all, losses = store._publisher.send_all, iter([10, 49])

    def losing(messages: Iterable[Any]) -> None:
        send_all(islice(messages, next(losses, 0), None))

    monkeypatch.setattr(store._publisher, "send_all", losing)
    drafts = [Draft(entry=Said(text="x"), session="s", id=str(number)) for number in range(50)]
    assert all(appended.created for appended in await journal.append_all(drafts))
    assert [record.id async for record in journal.read()] == [draft.id for draft in drafts]


async def test_what_the_server_does_not_permit_is_said_and_not_tried_for_ever(tmp_path: Path):
    permissions = 'publish: {deny: ["hearth.chat.in.>", "hearth.chat.out.Secret"]}'
    async with external(tmp_path, accounts(permissions)) as port:
        url = f"nats://app:canary@127.0.0.1:{port}"
        async with await JetStreamStore.connect(url, "hearth") as store:
            journal = await store.open("chat", registry())
            for attempt in (journal.append(Said(text="x"), session="s"), journal.claim("Secret", "me")):
                with pytest.raises(StoreRefused, match=r"does not permit writing to 'hearth\.chat") as caught:
                    await asyncio.wait_for(attempt, 60)
                assert "canary" not in str(caught.value)
            claim = await journal.claim("s", "me")
            assert (await journal.append(Said(text="x"), session="s", expect=claim)).created


async def test_a_server_that_takes_small_messages_only_is_enough(tmp_path: Path):
    config = f'max_payload: 65536\njetstream {{ store_dir: "{tmp_path}/js" }}'
    text = "x" * 1_000_000
    async with external(tmp_path, config) as port, await JetStreamStore.connect(f"127.0.0.1:{port}", "h") as store:
        journal = await store.open("chat", registry())
        for size in (20_000, 40_000, 65_536, 200_000, 1_000_000):
            written = (await journal.append(Said(text=text[:size]), session="s", id=str(size))).record
            assert await journal.get(written.position) == written


async def test_a_body_is_the_same_whether_it_was_stored_with_its_message_or_beside_it(store: JetStreamStore):
    journal = await store.open("chat", registry())
    beside = Journal(journal.log, registry(), inline_limit=10)
    for first, second, id in ((journal, beside, "a"), (beside, journal, "b")):
        written = await first.append(Said(text="not that large"), session="s", id=id)
        again = Journal(second.log, registry(), inline_limit=second._envelope._inline_limit)
        assert await again.append(Said(text="not that large"), session="s", id=id) == (written.record, False)
