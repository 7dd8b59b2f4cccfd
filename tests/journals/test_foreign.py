"""What others wrote into a stream: read as far as it goes, said to be unreadable where it does not, never a crash."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import msgspec
import pytest

from journals import Draft, InvalidEntry, Journal, Record, Store, Unreadable
from journals._log import Message
from tests.journals.kinds import Said, registry

BODY = b'{"kind":"Said","text":"foreign"}'
PLAIN = {"Coven-Kind": "Said", "Coven-Id": "f"}


@pytest.fixture
async def journal(store: Store) -> Journal:
    return await store.open("chat", registry())


async def all_of(journal: Journal, **query: object) -> list[Record]:
    return [record async for record in journal.read(**query)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("subject", "headers", "reason"),
    [
        ("in.s", {**PLAIN, "Coven-Version": "x"}, "a number in its envelope is wrong"),
        ("in.s", {**PLAIN, "Coven-Version": "9" * 5000}, "a number in its envelope is wrong"),
        ("in.s", {**PLAIN, "Coven-Hops": "-"}, "a number in its envelope is wrong"),
        ("in.s", {**PLAIN, "Coven-Time": "noon"}, "a number in its envelope is wrong"),
        ("in.s", {**PLAIN, "Coven-Time": "nan"}, "nan is not a time"),
        ("in.s", {**PLAIN, "Coven-Time": "-1e300"}, "is not a time"),
        ("in.s", {**PLAIN, "Coven-Blob": "00ff"}, "large body '00ff' is not in the store"),
        ("in.s", {**PLAIN, "Coven-Blob": "../ *>"}, "is not in the store"),
        ("in.a.b", PLAIN, "'a.b', which names no session"),
        ("in.%ZZ", PLAIN, "'%ZZ', which names no session"),
        ("in.%ff", PLAIN, "'%ff', which names no session"),
        ("in." + "x" * 900, PLAIN, "which names no session"),
        ("in", PLAIN, "'', which names no session"),
    ],
)
async def test_a_wrong_envelope_is_said_and_what_follows_is_read(
    journal: Journal, subject: str, headers: dict[str, str], reason: str
):
    await journal.log.append(Message(subject, headers, BODY))
    good = (await journal.append(Said(text="good"), session="s")).record
    bad, after = await all_of(journal)
    assert isinstance(bad.entry, Unreadable)
    assert reason in bad.entry.reason
    assert after == good
    async with aclosing(journal.tail()) as tail:
        assert await anext(tail) == bad
        assert await anext(tail) == good


@pytest.mark.parametrize(
    ("subject", "headers"),
    [("in.s", {}), ("in.s", {"Coven-Id": "a"}), ("sideways.s", PLAIN), ("out.s", {"Coven-Kind": "Claim"})],
)
async def test_what_is_no_record_is_passed_over(journal: Journal, subject: str, headers: dict[str, str]):
    await journal.log.append(Message(subject, headers, b"hello"))
    written = await journal.append(Said(text="good"), session="s", id="a")
    assert written.created
    assert await all_of(journal) == await all_of(journal, session="s") == [written.record]


@pytest.mark.parametrize(
    "headers",
    [
        {"Status": "100", "Nats-Last-Consumer": "7"},
        {"Status": "404"},
        {"Status": "409", "Nats-Pending-Messages": "x"},
        {"Nats-Sequence": "x", "Nats-Subject": "q", "Nats-Time-Stamp": "z"},
    ],
)
async def test_a_header_of_the_server_s_own_deceives_no_reader(journal: Journal, headers: dict[str, str]):
    first = (await journal.append(Said(text="before"), session="s")).record
    await journal.log.append(Message("in.s", {**PLAIN, **headers}, BODY))
    last = (await journal.append(Said(text="after"), session="s")).record
    for query in ({}, {"session": "s"}):
        async with asyncio.timeout(60):
            found = await all_of(journal, **query)
        assert [record.id for record in found] == [first.id, "f", last.id]
    async with asyncio.timeout(60), aclosing(journal.tail(first.position)) as tail:
        assert [(await anext(tail)).id for _ in range(2)] == ["f", last.id]


async def test_the_largest_message_that_a_server_takes_sticks_no_reader(journal: Journal):
    body = b"x" * (1024 * 1024 - 200)
    await journal.log.append(Message("in.s", {**PLAIN, "Coven-Correlation": "y" * 100}, body))
    await journal.append(Said(text="after"), session="s")
    for query in ({}, {"session": "s"}):
        async with asyncio.timeout(60):
            assert [type(record.entry) for record in await all_of(journal, **query)] == [Unreadable, Said]


async def test_claims_have_their_kind_for_themselves(journal: Journal):
    forged = Unreadable(of_kind="Claim", version=1, reason="", body=b"mallory")
    record = (await journal.append(Said(text="x"), session="s")).record

    with pytest.raises(InvalidEntry, match="cannot be of kind 'Claim'"):
        await journal.import_record(msgspec.structs.replace(record, kind="Claim", entry=forged, id="c"))


@pytest.mark.parametrize("field", ["id", "correlation_id", "origin"])
async def test_an_envelope_over_the_limit_is_refused_before_it_costs_the_connection(journal: Journal, field: str):
    with pytest.raises(InvalidEntry, match="of 8,192 bytes"):
        await journal.append(Said(text="x"), session="s", **{field: "x" * 2_000_000})  # type: ignore[arg-type]
    with pytest.raises(InvalidEntry, match="of 8,192 bytes"):
        await journal.append_all([Draft(entry=Said(text="x"), session="s", id="x" * 9000)])
    assert (await journal.append(Said(text="good"), session="s")).created
