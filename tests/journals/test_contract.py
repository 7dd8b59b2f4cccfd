"""The journal contract: the memory store and JetStream pass one and the same suite."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import msgspec
import pytest

from journals import (
    AppendOnly,
    Claim,
    ClaimLost,
    Draft,
    IdConflict,
    InvalidEntry,
    InvalidName,
    Journal,
    Lane,
    Store,
    derive_id,
)
from tests.journals.kinds import Heard, Said, registry


@pytest.fixture
async def journal(store: Store) -> Journal:
    return await store.open("chat", registry())


async def positions(journal: Journal, **query: object) -> list[int]:
    return [record.position async for record in journal.read(**query)]  # type: ignore[arg-type]


class TestAppending:
    async def test_gives_the_record_as_it_will_be_read(self, journal: Journal) -> None:
        appended = await journal.append(
            Said(text="hello"), session="kitchen", id="a", correlation_id="c", origin="discord"
        )
        assert appended.created
        assert [record async for record in journal.read()] == [appended.record]
        record = appended.record
        assert (record.kind, record.session, record.id, record.correlation_id) == ("Said", "kitchen", "a", "c")
        assert (record.lane, record.origin, record.version, record.causation_id) == (Lane.IN, "discord", 1, None)

    async def test_a_cause_hands_on_correlation_and_origin(self, journal: Journal) -> None:
        first = (await journal.append(Said(text="q"), session="s", correlation_id="c", origin="console")).record
        second = (await journal.append(Said(text="a"), session="s", cause=first)).record
        assert (second.correlation_id, second.origin, second.causation_id) == ("c", "console", first.id)

    async def test_positions_strictly_increase_over_all_sessions(self, journal: Journal) -> None:
        for number in range(20):
            await journal.append(Said(text="x", number=number), session=f"s{number % 3}")
        found = await positions(journal)
        assert found == sorted(set(found))
        assert len(found) == 20

    async def test_the_same_id_with_the_same_content_is_written_once(self, journal: Journal) -> None:
        first = await journal.append(Said(text="once"), session="s", id="a")
        second = await journal.append(Said(text="once"), session="s", id="a")
        assert (first.created, second.created) == (True, False)
        assert second.record == first.record
        assert len(await positions(journal)) == 1

    async def test_it_tells_whether_an_id_is_there_whoever_wrote_it(self, store: Store, journal: Journal) -> None:
        other = await store.open("chat", registry())
        assert not await journal.has("a", "s")
        for id in ("a", "b"):
            await other.append(Said(text="said"), session="s", id=id)
            assert await journal.has(id, "s")
        assert not await journal.has("a", "t")

    async def test_another_writer_finds_the_id_however_much_later(self, store: Store, journal: Journal) -> None:
        first = await journal.append(Said(text="once"), session="s", id="a")
        for number in range(50):
            await journal.append(Said(text="between"), session="s", id=f"b{number}")
        other = await store.open("chat", registry())
        assert await other.append(Said(text="once"), session="s", id="a") == (first.record, False)

    async def test_the_same_id_with_other_content_is_refused(self, journal: Journal) -> None:
        await journal.append(Said(text="one"), session="s", id="a")
        with pytest.raises(IdConflict, match="other content"):
            await journal.append(Said(text="two"), session="s", id="a")

    async def test_an_id_belongs_to_its_session(self, journal: Journal) -> None:
        for session in ("s", "t"):
            assert (await journal.append(Said(text=session), session=session, id="a")).created

    async def test_two_writers_race_for_one_id_and_one_creates_it(self, store: Store) -> None:
        writers = [await store.open("chat", registry()) for _ in range(4)]
        results = await asyncio.gather(*(w.append(Said(text="x"), session="s", id="a") for w in writers))
        assert sorted(result.created for result in results) == [False, False, False, True]
        assert len({result.record.position for result in results}) == 1

    async def test_many_writers_of_one_session_lose_nothing(self, store: Store) -> None:
        writers = [await store.open("chat", registry()) for _ in range(3)]

        async def write(name: int, writer: Journal) -> None:
            for number in range(15):
                await writer.append(Said(text="x", number=number), session="s", id=f"{name}-{number}")

        await asyncio.gather(*(write(name, writer) for name, writer in enumerate(writers)))
        records = [record async for record in writers[0].read(session="s")]
        assert len(records) == 45
        for name in range(3):
            mine = [record.id for record in records if record.id.startswith(f"{name}-")]
            assert mine == [f"{name}-{number}" for number in range(15)]

    @pytest.mark.parametrize("name", ["a b", "a.b", "*", ">", "🧙 circle", "nul\0", "per%cent", "日本", "\n", "~", "-"])
    async def test_a_session_may_have_any_name(self, journal: Journal, name: str) -> None:
        written = (await journal.append(Said(text=name), session=name, id="a")).record
        assert [record async for record in journal.read(session=name)] == [written]
        assert written.session == name

    @pytest.mark.parametrize("name", ["", "x" * 600, "\ud800"])
    async def test_a_name_that_cannot_be_stored_is_refused(self, journal: Journal, name: str) -> None:
        with pytest.raises(InvalidName):
            await journal.append(Said(text="x"), session=name)

    @pytest.mark.parametrize("field", ["id", "correlation_id", "origin"])
    @pytest.mark.parametrize("value", ["a\r\nCoven-Kind: Heard", "é", " padded ", "tab\t"])
    async def test_an_envelope_that_could_forge_headers_is_refused(
        self, journal: Journal, field: str, value: str
    ) -> None:
        with pytest.raises(InvalidEntry, match="printable ASCII"):
            await journal.append(Said(text="x"), session="s", **{field: value})  # type: ignore[arg-type]
        assert await positions(journal) == []

    async def test_text_that_json_cannot_hold_is_refused(self, journal: Journal) -> None:
        with pytest.raises(InvalidEntry):
            await journal.append(Said(text="\ud800"), session="s")

    async def test_a_kind_that_is_not_registered_is_refused(self, store: Store) -> None:
        from branches.chat import CHAT

        chat = await store.open("other", CHAT.registry())
        with pytest.raises(InvalidEntry, match="not a kind of this journal"):
            await chat.append(Said(text="x"), session="s")

    async def test_a_large_body_is_read_back_transparently(self, store: Store, journal: Journal) -> None:
        text = "x" * 5 * 1024 * 1024
        first = await journal.append(Said(text=text), session="s", id="big")
        other = await store.open("chat", registry())
        assert [record.entry async for record in other.read()] == [Said(text=text)]
        assert await other.append(Said(text=text), session="s", id="big") == (first.record, False)
        with pytest.raises(IdConflict):
            await other.append(Said(text=text + "y"), session="s", id="big")

    async def test_a_body_over_the_limit_is_refused_with_a_cure(self, store: Store) -> None:
        journal = await store.open("chat", registry())
        small = Journal(journal.log, registry(), body_limit=1000, inline_limit=100)
        with pytest.raises(InvalidEntry, match="write a file"):
            await small.append(Said(text="x" * 2000), session="s")


class TestAppendingAll:
    async def test_all_are_written_in_order(self, journal: Journal) -> None:
        drafts = [Draft(entry=Said(text="x", number=n), session="s", id=str(n)) for n in range(300)]
        appended = await journal.append_all(drafts)
        assert all(each.created for each in appended)
        assert [record async for record in journal.read(session="s")] == [each.record for each in appended]

    async def test_again_gives_the_first_records(self, journal: Journal) -> None:
        drafts = [Draft(entry=Said(text="x", number=n), session="s", id=str(n)) for n in range(3)]
        first = await journal.append_all(drafts)
        again = await journal.append_all(drafts)
        assert [each.record for each in again] == [each.record for each in first]
        assert not any(each.created for each in again)

    async def test_none_are_written_when_one_stands_already(self, journal: Journal) -> None:
        await journal.append(Said(text="x", number=1), session="s", id="1")
        with pytest.raises(IdConflict):
            await journal.append_all([Draft(entry=Said(text="x", number=n), session="s", id=str(n)) for n in range(3)])
        assert len(await positions(journal)) == 1

    async def test_none_are_written_when_one_cannot_be(self, journal: Journal) -> None:
        good, bad = (
            Draft(entry=Said(text="x"), session="s", id="1"),
            Draft(entry=Said(text="\ud800"), session="s", id="2"),
        )
        with pytest.raises(InvalidEntry):
            await journal.append_all([good, bad])
        assert await positions(journal) == []

    async def test_two_drafts_of_one_id_are_refused(self, journal: Journal) -> None:
        with pytest.raises(ValueError, match="the same id"):
            await journal.append_all([Draft(entry=Said(text=text), session="s", id="1") for text in "ab"])
        assert await positions(journal) == []

    async def test_nothing_is_fine_and_too_much_or_two_sessions_are_not(self, journal: Journal) -> None:
        assert await journal.append_all([]) == []
        with pytest.raises(ValueError, match="one session"):
            await journal.append_all([Draft(entry=Said(text="x"), session=s, id="1") for s in "ab"])
        with pytest.raises(InvalidEntry, match="at most 1000"):
            await journal.append_all([Draft(entry=Said(text="x"), session="s", id=str(n)) for n in range(1001)])

    async def test_it_falls_to_a_newer_claim_as_a_whole(self, store: Store, journal: Journal) -> None:
        claim = await journal.claim("s", "old")
        await (await store.open("chat", registry())).claim("s", "new")
        with pytest.raises(ClaimLost):
            await journal.append_all([Draft(entry=Said(text="x"), session="s", id=i) for i in "ab"], expect=claim)
        assert await positions(journal) == []


class TestClaims:
    async def test_the_owner_writes_the_out_lane(self, journal: Journal) -> None:
        claim = await journal.claim("s", "worker")
        record = (await journal.append(Said(text="x"), session="s", expect=claim)).record
        assert record.lane is Lane.OUT
        assert await positions(journal) == [record.position]

    async def test_an_older_owner_is_refused(self, store: Store, journal: Journal) -> None:
        old = await journal.claim("s", "old")
        await journal.append(Said(text="x"), session="s", expect=old)
        other = await store.open("chat", registry())
        new = await other.claim("s", "new")
        with pytest.raises(ClaimLost, match="'old' no longer owns it"):
            await journal.append(Said(text="y"), session="s", expect=old)
        await other.append(Said(text="z"), session="s", expect=new)
        assert [record.entry async for record in journal.read()] == [Said(text="x"), Said(text="z")]

    async def test_an_older_owner_is_refused_what_the_newer_one_has_written_already(
        self, store: Store, journal: Journal
    ) -> None:
        """Both are about to do the same thing in the world; to the older one the record must not seem its own."""
        old = await journal.claim("s", "old")
        other = await store.open("chat", registry())
        new = await other.claim("s", "new")
        await other.append(Said(text="x"), session="s", id="1", expect=new)
        await other.append_all([Draft(entry=Said(text="x"), session="s", id=id) for id in "23"], expect=new)
        for _ in range(2):
            with pytest.raises(ClaimLost):
                await journal.append(Said(text="x"), session="s", id="1", expect=old)
            with pytest.raises(ClaimLost):
                await journal.append_all([Draft(entry=Said(text="x"), session="s", id=id) for id in "23"], expect=old)

    async def test_a_new_claim_of_the_same_writer_outdates_the_first(self, journal: Journal) -> None:
        old, new = await journal.claim("s", "me"), await journal.claim("s", "me")
        with pytest.raises(ClaimLost):
            await journal.append(Said(text="x"), session="s", expect=old)
        await journal.append(Said(text="x"), session="s", expect=new)

    async def test_a_claim_says_whether_anything_stood_in_the_lane_before(self, store: Store, journal: Journal) -> None:
        await journal.append(Said(text="in"), session="s")
        other = await store.open("chat", registry())
        assert [(await each.claim("s", "me")).is_first for each in (journal, other, journal)] == [True, False, False]

    async def test_one_lane_of_a_session_is_read_by_itself(self, journal: Journal) -> None:
        claim = await journal.claim("s", "me")
        for number in range(3):
            await journal.append(Said(text="in", number=number), session="s")
            await journal.append(Said(text="out", number=number), session="s", expect=claim)
        for lane in Lane:
            assert [record.lane async for record in journal.read(session="s", lane=lane)] == [lane] * 3

    async def test_what_is_routed_in_never_trips_the_owner(self, store: Store, journal: Journal) -> None:
        claim = await journal.claim("s", "worker")
        other = await store.open("chat", registry())
        for number in range(10):
            await other.append(Said(text="in"), session="s")
            await journal.append(Said(text="out", number=number), session="s", expect=claim)
        assert len(await positions(journal, session="s")) == 20

    async def test_claims_of_other_sessions_do_not_matter(self, journal: Journal) -> None:
        mine = await journal.claim("s", "me")
        await journal.claim("t", "you")
        await journal.append(Said(text="x"), session="s", expect=mine)

    async def test_racing_claims_leave_one_owner(self, store: Store) -> None:
        writers = [await store.open("chat", registry()) for _ in range(5)]
        claims = await asyncio.gather(*(w.claim("s", f"w{n}") for n, w in enumerate(writers)))

        async def write(writer: Journal, claim: Claim) -> bool:
            try:
                await writer.append(Said(text=claim.owner), session="s", expect=claim)
            except ClaimLost:
                return False
            return True

        won = [await write(writer, claim) for writer, claim in zip(writers, claims, strict=True)]
        newest = max(range(5), key=lambda n: claims[n].position)
        assert [n for n in range(5) if won[n]] == [newest]


class TestReading:
    async def test_between_positions_both_exclusive(self, journal: Journal) -> None:
        written = [(await journal.append(Said(text="x"), session=f"s{n % 2}")).record.position for n in range(10)]
        assert await positions(journal, after=written[2], before=written[7]) == written[3:7]
        assert await positions(journal, after=written[-1]) == []
        evens = written[::2]
        assert await positions(journal, session="s0", after=evens[0], before=evens[3]) == evens[1:3]

    async def test_a_session_has_both_lanes_in_order(self, journal: Journal) -> None:
        claim = await journal.claim("s", "me")
        written: list[int] = []
        for number in range(30):
            expect = claim if number % 3 else None
            written.append((await journal.append(Said(text="x"), session="s", expect=expect)).record.position)
            await journal.append(Said(text="noise"), session="t")
        assert await positions(journal, session="s") == written

    async def test_backwards(self, journal: Journal) -> None:
        for number in range(700):
            await journal.append(Said(text="x", number=number), session=f"s{number % 2}")
        everything = await positions(journal)
        assert await positions(journal, reverse=True) == everything[::-1]
        assert (
            await positions(journal, reverse=True, after=everything[3], before=everything[9]) == everything[4:9][::-1]
        )
        assert await positions(journal, reverse=True, session="s1") == everything[1::2][::-1]

    async def test_kinds_are_chosen(self, journal: Journal) -> None:
        await journal.append(Said(text="x"), session="s")
        heard = (await journal.append(Heard(text="y"), session="s")).record
        assert [record async for record in journal.read(kinds={"Heard"})] == [heard]
        assert await journal.last(kinds={"Said", "Heard"}) == heard
        assert await journal.last(kinds={"Nothing"}) is None

    async def test_the_last_of_a_session(self, journal: Journal) -> None:
        mine = (await journal.append(Said(text="x"), session="s")).record
        await journal.append(Said(text="y"), session="t")
        assert await journal.last(session="s") == mine
        assert await journal.last(session="nobody") is None

    async def test_the_last_of_a_session_needs_no_reading_of_it(
        self, journal: Journal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        claim = await journal.claim("s", "me")
        await journal.append(Said(text="x"), session="s")  # the writer has read both lanes now
        monkeypatch.setattr(journal.log, "read", None)
        for number in range(4):
            expect = claim if number % 2 else None
            wanted = (await journal.append(Said(text="x"), session="s", expect=expect)).record
            assert await journal.last(session="s") == wanted
            assert await journal.last(session="s", kinds={"Said"}) == wanted
        assert await journal.last(session="nobody", kinds={"Said"}) is None

    async def test_the_last_of_a_session_is_found_behind_others_and_below_claims(self, journal: Journal) -> None:
        heard = (await journal.append(Heard(text="long ago"), session="s")).record
        for part in range(3):
            await journal.append_all([Draft(entry=Said(text="x"), session="t", id=f"{part}-{n}") for n in range(900)])
        said = (await journal.append(Said(text="y"), session="s")).record
        await journal.claim("s", "me")
        assert await journal.last(session="s") == said
        assert await journal.last(session="s", kinds={"Heard"}) == heard
        assert await journal.last(session="s", kinds={"Nothing"}) is None
        assert [record async for record in journal.read(session="s", reverse=True)] == [said, heard]

    async def test_one_position(self, journal: Journal) -> None:
        written = (await journal.append(Said(text="x"), session="s")).record
        assert await journal.get(written.position) == written
        assert await journal.get(written.position + 1) is None

    async def test_nothing_is_ever_deleted(self, journal: Journal) -> None:
        with pytest.raises(AppendOnly, match="loom is append-only"):
            journal.delete(1)


class TestTailing:
    async def test_gives_what_is_there_and_what_comes(self, journal: Journal) -> None:
        await journal.append(Said(text="before"), session="s")
        async with aclosing(journal.tail()) as tail:
            assert (await anext(tail)).entry == Said(text="before")
            waiting = asyncio.ensure_future(anext(tail))
            await journal.append(Said(text="after"), session="s")
            assert (await waiting).entry == Said(text="after")

    async def test_a_slow_reader_misses_nothing(self, journal: Journal) -> None:
        async def write() -> None:
            for part in range(4):
                drafts = [Draft(entry=Said(text="x"), session="s", id=f"{part}-{n}") for n in range(900)]
                await journal.append_all(drafts)

        writing = asyncio.create_task(write())
        seen: list[int] = []
        async with aclosing(journal.tail()) as tail:
            async for record in tail:
                seen.append(record.position)
                if len(seen) % 100 == 0:
                    await asyncio.sleep(0)
                if len(seen) == 3600:
                    break
        await writing
        assert seen == await positions(journal)

    async def test_of_a_session_and_of_kinds(self, journal: Journal) -> None:
        await journal.append(Heard(text="no"), session="s")
        await journal.append(Said(text="no"), session="t")
        wanted = (await journal.append(Said(text="yes"), session="s")).record
        async with aclosing(journal.tail(kinds={"Said"}, session="s")) as tail:
            assert await anext(tail) == wanted

    async def test_waiting_for_a_correlation_id(self, journal: Journal) -> None:
        waiting = asyncio.create_task(journal.wait_for("call-7", timeout=60))
        await journal.append(Said(text="other"), session="s", correlation_id="call-6")
        answer = (await journal.append(Said(text="mine"), session="t", correlation_id="call-7")).record
        assert await waiting == answer

    async def test_waiting_ends_with_a_timeout(self, journal: Journal) -> None:
        with pytest.raises(TimeoutError):
            await journal.wait_for(lambda record: False, timeout=0.01)


class TestUnreadable:
    async def test_an_old_version_is_upcast_step_by_step(self, journal: Journal) -> None:
        old = registry()
        await journal.append(Heard(text="new"), session="s")
        message = journal._envelope.pack(Draft(entry=Heard(text="-"), session="s", id="old"), Lane.IN, 1.0)
        body = b'{"kind":"Heard","words":"once"}'
        await journal.log.append(
            msgspec.structs.replace(message, headers={**message.headers, "Coven-Version": "1"}, body=body)
        )
        assert [record.entry async for record in journal.read()] == [
            Heard(text="new"),
            Heard(text="once", loudness=1.0),
        ]
        assert old.kinds == ("Said", "Heard")

    @pytest.mark.parametrize(
        ("headers", "body", "reason"),
        [
            ({"Coven-Version": "9"}, b'{"kind":"Said","text":"x"}', "upgrade Coven"),
            ({}, b"\xff\xfe not json", "DecodeError|Utf8|Unicode|malformed"),
            ({}, b'{"kind":"Said","text":5}', "Expected `str`"),
            ({"Coven-Kind": "Vanished"}, b"{}", "not registered"),
        ],
    )
    async def test_what_nobody_can_decode_is_said_and_not_stuck(
        self, journal: Journal, headers: dict[str, str], body: bytes, reason: str
    ) -> None:
        message = journal._envelope.pack(Draft(entry=Said(text="x"), session="s", id="a"), Lane.IN, 1.0)
        await journal.log.append(msgspec.structs.replace(message, headers={**message.headers, **headers}, body=body))
        good = (await journal.append(Said(text="good"), session="s")).record
        bad, after = [record async for record in journal.read()]
        assert after == good
        assert type(bad.entry).__name__ == "Unreadable"
        assert bad.entry.body == body  # type: ignore[attr-defined]
        assert __import__("re").search(reason, bad.entry.reason)  # type: ignore[attr-defined]


class TestImporting:
    async def test_keeps_id_and_time_and_is_marked(self, store: Store, journal: Journal) -> None:
        original = (await journal.append(Said(text="x"), session="s", correlation_id="c", origin="o")).record
        other = await store.open("copy", registry())
        copied = (await other.import_record(original)).record
        assert copied.imported
        assert (copied.id, copied.time, copied.session) == (original.id, original.time, original.session)
        assert not (await other.import_record(original)).created
        assert [record.imported async for record in other.read()] == [True]


def test_a_derived_id_is_computed_from_its_parts() -> None:
    assert derive_id("call", 7) == derive_id("call", 7) != derive_id("call", 8)
    assert derive_id("a", "b") != derive_id("ab")
