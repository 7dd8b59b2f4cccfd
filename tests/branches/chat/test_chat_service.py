"""The Chat service: recorded once, committed once, delivered in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager, suppress

import pytest

from branches.chat import CHAT, ChatDelivered, ChatEfferent, ChatEfferentDraft, ChatSettled, ChatUndelivered
from branches.chat.drafts import SETTLED_SESSION
from branches.chat.entries import ChatActivity, ChatChunk
from branches.chat.leaf import ChatPort, DeliveryFailed
from branches.chat.service import ChatService
from branches.service import Finished
from journals import ClaimLost, Entry, EntryRegistry, InvalidName, Journal, MemoryStore, Record, Store, derive_id
from tests.living import living


class Platform:
    """A chat platform: it keeps what it was sent, and blocks or refuses where told."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.ids: list[str] = []
        self.shown: list[str] = []
        self.showed = asyncio.Event()
        self.held: dict[str, asyncio.Event] = {}
        self.gone: set[str] = set()
        self.ended = asyncio.Event()
        self.ends_after: int | None = None
        self.port: ChatPort | None = None

    async def run(self, port: ChatPort, ready: Callable[[], None]) -> None:
        self.port = port
        ready()
        if self.ends_after is None:
            await self.ended.wait()
        for _ in range(self.ends_after or 0):
            await asyncio.sleep(0)

    async def deliver(self, message: Record[ChatEfferent]) -> str | None:
        if message.session in self.gone:
            raise DeliveryFailed("no such channel")
        if held := self.held.get(message.session):
            await held.wait()
        self.sent.append((message.session, message.entry.text))
        self.ids.append(message.id)
        return f"receipt-{len(self.sent)}"

    async def show(self, chunk: Record[Entry]) -> None:
        if isinstance(chunk.entry, ChatChunk):
            self.shown.append(chunk.entry.text)
            self.showed.set()


@pytest.fixture
def memory() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def journal(memory: MemoryStore) -> Journal:
    return await memory.open("chat", CHAT.registry())


@asynccontextmanager
async def serving(store: Store, platform: Platform, **options):
    service = ChatService("chat", await store.open("chat", CHAT.registry()), platform, owner="test", **options)
    async with asyncio.timeout(60), living(service) as task:
        yield task


async def finish(store: Store, platform: Platform, **options) -> None:
    """Serve until the outside has ended."""
    service = ChatService("chat", await store.open("chat", CHAT.registry()), platform, owner="test", **options)
    async with asyncio.timeout(60):
        with pytest.raises(Finished):
            await service.run(lambda: None)


async def draft(journal: Journal, session: str, text: str, **envelope) -> Record[Entry]:
    return (await journal.append(ChatEfferentDraft(text=text, sender="keeper"), session=session, **envelope)).record


async def delivered(journal: Journal, count: int) -> list[Record[Entry]]:
    """The first `count` outcomes, as soon as they are there."""
    outcomes: list[Record[Entry]] = []
    async for record in journal.tail(0, kinds=["ChatDelivered", "ChatUndelivered"]):
        outcomes.append(record)
        if len(outcomes) == count:
            break
    return outcomes


async def kinds(journal: Journal) -> list[str]:
    return [record.kind async for record in journal.read()]


async def test_a_message_from_outside_starts_its_own_correlation(memory, journal):
    platform = Platform()
    async with serving(memory, platform):
        record = await platform.port.receive("room", "ada", "hello")
    assert record.correlation_id == record.id
    assert (record.session, record.origin, record.entry.sender, record.entry.text) == ("room", "chat", "ada", "hello")


async def test_the_platforms_message_id_makes_it_one_message_also_when_it_was_edited(memory, journal):
    platform = Platform()
    async with serving(memory, platform):
        first = await platform.port.receive("room", "ada", "hello", message_id="123")
        again = await platform.port.receive("room", "ada", "hello", message_id="123")
        edited = await platform.port.receive("room", "ada", "hello!", message_id="123")
    assert first.position == again.position == edited.position
    assert edited.entry.text == "hello"
    assert (await kinds(journal)).count("ChatAfferent") == 1


async def test_a_conversation_that_cannot_be_named_is_refused(memory, journal):
    platform = Platform()
    async with serving(memory, platform):
        with pytest.raises(InvalidName):
            await platform.port.receive("", "ada", "hello")


async def test_a_draft_is_committed_then_delivered_then_noted(memory, journal):
    platform = Platform()
    async with serving(memory, platform):
        wanted = await draft(journal, "room", "hi", correlation_id="c1", origin="chat")
        (outcome,) = await delivered(journal, 1)
    committed = await journal.last(kinds=["ChatEfferent"])
    assert committed.entry == ChatEfferent(text="hi", sender="keeper")
    assert committed.causation_id == wanted.id
    assert (committed.correlation_id, committed.origin) == ("c1", "chat")
    assert outcome.entry == ChatDelivered(efferent=committed.id, receipt="receipt-1")
    assert platform.ids == [committed.id]
    assert await kinds(journal) == ["ChatEfferentDraft", "ChatEfferent", "ChatDelivered"]


async def test_order_holds_within_a_conversation_and_no_conversation_waits_for_another(memory, journal):
    platform = Platform()
    platform.held["slow"] = asyncio.Event()
    async with serving(memory, platform):
        for number in range(3):
            await draft(journal, "slow", f"s{number}")
            await draft(journal, "quick", f"q{number}")
        await delivered(journal, 3)
        assert platform.sent == [("quick", "q0"), ("quick", "q1"), ("quick", "q2")]
        platform.held["slow"].set()
        await delivered(journal, 6)
    assert platform.sent[3:] == [("slow", "s0"), ("slow", "s1"), ("slow", "s2")]


async def test_what_was_not_delivered_is_delivered_after_a_restart_and_nothing_else(memory, journal):
    platform = Platform()
    async with serving(memory, platform):
        await draft(journal, "room", "one")
        await delivered(journal, 1)
        platform.held["room"] = asyncio.Event()
        await draft(journal, "room", "two")
        await journal.wait_for(lambda r: isinstance(r.entry, ChatEfferent) and r.entry.text == "two", timeout=60)
    await draft(journal, "room", "three")
    after = Platform()
    async with serving(memory, after):
        await delivered(journal, 3)
    assert after.sent == [("room", "two"), ("room", "three")]
    assert (await kinds(journal)).count("ChatEfferent") == 3


async def test_a_message_that_can_never_arrive_is_noted_and_the_next_one_goes_on(memory, journal):
    platform = Platform()
    platform.gone.add("deleted")
    async with serving(memory, platform):
        await draft(journal, "deleted", "one")
        (outcome,) = await delivered(journal, 1)
        platform.gone.clear()
        await draft(journal, "deleted", "two")
        await delivered(journal, 2)
    assert isinstance(outcome.entry, ChatUndelivered)
    assert outcome.entry.error == "no such channel"
    assert platform.sent == [("deleted", "two")]


async def test_imported_drafts_are_not_delivered(memory, journal):
    platform = Platform()
    other = await MemoryStore().open("chat", CHAT.registry())
    foreign = await draft(other, "room", "from elsewhere")
    async with serving(memory, platform):
        await journal.import_record(foreign)
        await draft(journal, "room", "ours")
        await delivered(journal, 1)
    assert platform.sent == [("room", "ours")]


async def test_a_draft_of_a_newer_version_is_noted_as_undelivered(memory, journal):
    class ChatEfferentDraft(Entry, frozen=True, kw_only=True):
        schema_version = 99
        text: str

    newer = await memory.open("chat", EntryRegistry([ChatEfferentDraft]))
    platform = Platform()
    async with serving(memory, platform):
        await newer.append(ChatEfferentDraft(text="?"), session="room")
        (outcome,) = await delivered(journal, 1)
        await draft(journal, "room", "plain")
        await delivered(journal, 2)
    assert "upgrade Coven" in outcome.entry.error
    assert platform.sent == [("room", "plain")]


async def test_a_start_reads_only_what_follows_the_last_settled_position(memory, journal):
    platform = Platform()
    async with serving(memory, platform, settled_every=10):
        for number in range(12):
            await draft(journal, "room", str(number))
        await delivered(journal, 12)
        await journal.wait_for(lambda r: r.kind == "ChatSettled", timeout=60)
    settled = await journal.last(kinds=["ChatSettled"])
    outcomes = await delivered(journal, 12)
    drafts = [r async for r in journal.read(before=settled.entry.position + 1, kinds=["ChatEfferentDraft"])]
    settled_ids = {derive_id("efferent", record.id) for record in drafts}
    before_it = {r.entry.efferent for r in outcomes if r.position < settled.position}
    assert settled_ids <= before_it
    assert isinstance(settled.entry, ChatSettled)
    after = Platform()
    async with serving(memory, after):
        await draft(journal, "room", "next")
        await delivered(journal, 13)
    assert after.sent == [("room", "next")]


async def test_an_undelivered_message_holds_the_settled_position_back(memory, journal):
    platform = Platform()
    platform.held["stuck"] = asyncio.Event()
    async with serving(memory, platform, settled_every=4):
        await draft(journal, "stuck", "first")
        for number in range(20):
            await draft(journal, "room", str(number))
        await delivered(journal, 20)
    assert "ChatSettled" not in await kinds(journal)
    after = Platform()
    async with serving(memory, after):
        await delivered(journal, 21)
    assert after.sent == [("stuck", "first")]


async def test_the_end_of_the_outside_waits_for_deliveries_under_way_and_then_finishes(memory, journal):
    platform = Platform()
    platform.held["room"] = asyncio.Event()
    async with serving(memory, platform) as service:
        await draft(journal, "room", "last words")
        await journal.wait_for(lambda r: isinstance(r.entry, ChatEfferent), timeout=60)
        platform.ended.set()
        platform.held["room"].set()
        with pytest.raises(Finished):
            await service
    assert platform.sent == [("room", "last words")]
    assert (await kinds(journal))[-1] == "ChatDelivered"


async def test_what_was_left_undelivered_is_delivered_even_if_the_outside_ends_at_once(memory, journal):
    await draft(journal, "room", "left over")
    platform = Platform()
    platform.ended.set()
    await finish(memory, platform)
    assert platform.sent == [("room", "left over")]


async def test_drafts_that_never_cease_do_not_keep_it_from_finishing(memory, journal):
    class Echo(Platform):
        async def deliver(self, message):
            await draft(journal, message.session, f"{message.entry.text}!")
            return await super().deliver(message)

    platform = Echo()
    async with serving(memory, platform) as service:
        await draft(journal, "room", "hi")
        await delivered(journal, 3)
        platform.ended.set()
        with pytest.raises(Finished):
            await service
    after = Platform()
    async with serving(memory, after):
        await delivered(journal, len(platform.sent) + 1)
    assert after.sent == [("room", "hi" + "!" * len(platform.sent))]


async def test_whenever_the_outside_ends_and_drafts_come_it_finishes_and_each_is_delivered_once(store: Store):
    """The leaf ends so many turns of the loop after it is ready, while drafts arrive."""
    journal = await store.open("chat", CHAT.registry())
    chunks = await store.open("chat-chunks", CHAT.registry(short_lived=True), short_lived=True)
    sent: list[tuple[str, str]] = []
    moments = 40

    async def ask(moment: int) -> None:
        for number in range(3):
            await draft(journal, f"room {number}", f"{moment}.{number}")

    for moment in range(moments):
        platform = Platform()
        platform.ends_after = moment
        asking = asyncio.create_task(ask(moment))
        await finish(store, platform, chunk_journal=chunks)
        await asking
        sent += platform.sent
    last = Platform()
    async with serving(store, last):
        await delivered(journal, moments * 3)
    sent += last.sent
    assert sorted(sent) == sorted((f"room {n}", f"{moment}.{n}") for moment in range(moments) for n in range(3))


class Deaf:
    """A log that answers late where it ends, and loses a cancellation meanwhile, as `wait_for` could before 3.12."""

    def __init__(self, log) -> None:
        self._log = log
        self.asked, self.answers = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str):
        return getattr(self._log, name)

    async def end(self) -> int:
        self.asked.set()
        with suppress(asyncio.CancelledError):
            await self.answers.wait()
        return await self._log.end()


async def test_a_draft_that_comes_when_the_outside_has_ended_while_the_service_starts_is_delivered_once(
    memory, journal
):
    log = Deaf((await memory.open("chat-chunks", CHAT.registry(short_lived=True), short_lived=True)).log)
    chunks = Journal(log, CHAT.registry(short_lived=True))
    platform, after = Platform(), Platform()
    platform.ended.set()
    finishing = asyncio.create_task(finish(memory, platform, chunk_journal=chunks))
    await log.asked.wait()
    await draft(journal, "room", "hi")
    log.answers.set()
    await finishing
    async with serving(memory, after):
        await delivered(journal, 1)
    assert platform.sent + after.sent == [("room", "hi")]


async def test_an_outside_that_ends_before_it_was_ready_is_finished(memory, journal):
    class Gone(Platform):
        async def run(self, port, ready):
            return

    await finish(memory, Gone())


async def test_a_leaf_that_breaks_fails_the_service_with_its_own_error(memory, journal):
    class Broken(Platform):
        async def deliver(self, message):
            raise ConnectionError("the platform is away")

    async with serving(memory, Broken()) as service:
        await draft(journal, "room", "hi")
        with pytest.raises(ConnectionError):
            await service


async def test_a_newer_service_takes_a_conversation_over_and_the_older_one_stops(memory, journal):
    older, newer = Platform(), Platform()
    async with serving(memory, older) as service, serving(memory, newer):
        await older.port.receive("room", "ada", "to the older")
        await newer.port.receive("room", "ada", "to the newer")
        await draft(journal, "room", "answer")
        await delivered(journal, 1)
        with pytest.raises(ClaimLost):
            await service
    assert older.sent == []
    assert newer.sent == [("room", "answer")]


async def test_a_conversation_is_claimed_once_for_all_that_happens_in_it(memory, journal):
    platform = Platform()
    async with serving(memory, platform):
        for number in range(3):
            await draft(journal, "room", str(number))
            await platform.port.receive("room", "ada", str(number))
        await delivered(journal, 3)
    # Of a journal's positions only claims are no records.
    assert await journal.end() == len(await kinds(journal)) + 1


async def test_another_service_that_keeps_marks_does_not_stop_this_one(memory, journal):
    platform = Platform()
    async with serving(memory, platform, settled_every=3):
        for number in range(12):
            if number == 6:
                await (await memory.open("chat", CHAT.registry())).claim(SETTLED_SESSION, "another service")
            await draft(journal, "room", str(number))
            await delivered(journal, number + 1)
    assert len(platform.sent) == 12
    marks = [record async for record in journal.read(kinds=["ChatSettled"])]
    assert marks[-1].position > 3 * 6 + len(marks)


async def test_an_outcome_that_a_newer_program_wrote_is_an_outcome(memory, journal):
    class ChatDelivered(Entry, frozen=True, kw_only=True):
        schema_version = 99

    wanted = await draft(journal, "room", "delivered by a newer program")
    newer = await memory.open("chat", EntryRegistry([ChatEfferent, ChatDelivered]))
    claim = await newer.claim("room", "newer")
    committed = await newer.append(
        ChatEfferent(text="x"), session="room", id=derive_id("efferent", wanted.id), cause=wanted, expect=claim
    )
    await newer.append(ChatDelivered(), session="room", cause=committed.record, expect=claim)
    platform = Platform()
    async with serving(memory, platform):
        await draft(journal, "room", "next")
        await delivered(journal, 2)
    assert platform.sent == [("room", "next")]


async def test_a_draft_that_could_not_be_read_was_given_up_also_for_the_program_that_can(memory, journal):
    older = await memory.open("chat", EntryRegistry([ChatUndelivered]))
    wanted = await draft(journal, "room", "unheard")
    given_up = ChatUndelivered(efferent=derive_id("efferent", wanted.id), error="upgrade Coven here")
    await older.append(given_up, session="room", cause=wanted, expect=await older.claim("room", "older"))
    platform = Platform()
    async with serving(memory, platform):
        await draft(journal, "room", "next")
        await delivered(journal, 2)
    assert platform.sent == [("room", "next")]


async def test_pieces_are_shown_as_they_come(memory, journal):
    platform = Platform()
    chunks = await memory.open("chat-chunks", CHAT.registry(short_lived=True), short_lived=True)
    await chunks.append(ChatChunk(stream="s", index=0, text="from before the start"), session="room")
    async with serving(memory, platform, chunk_journal=chunks):
        await asyncio.sleep(0)
        await chunks.append(ChatChunk(stream="s", index=1, text="the rest of it"), session="room")
        await chunks.append(ChatChunk(stream="t", index=0, text="now"), session="room")
        async with asyncio.timeout(60):
            await platform.showed.wait()
    assert platform.shown == ["now"]


async def test_repr_tells_what_waits(memory, journal):
    platform = Platform()
    service = ChatService("discord", journal, platform, owner="test")
    assert repr(service) == "<ChatService discord 0 drafts in 0 conversations>"


class Active(Platform):
    """A platform that also shows what an agent does."""

    async def show_activity(self, activity: Record[ChatActivity]) -> None:
        self.sent.append((activity.session, f"({activity.entry.text})"))
        self.showed.set()


async def test_what_an_agent_does_is_shown_in_its_place_and_not_again_after_a_restart(memory, journal):
    platform = Active()
    await journal.append(ChatActivity(activity="thought", text="before the start"), session="room")
    async with serving(memory, platform):
        await journal.append(ChatActivity(activity="thought", text="hm"), session="room")
        await draft(journal, "room", "Yes.")
        await delivered(journal, 1)
        await journal.append(ChatActivity(activity="thought", text="and now"), session="room")
        platform.showed.clear()
        async with asyncio.timeout(60):
            while platform.sent[-1] != ("room", "(and now)"):
                await platform.showed.wait()
    assert platform.sent == [("room", "(hm)"), ("room", "Yes."), ("room", "(and now)")]
    async with serving(memory, platform):
        await draft(journal, "room", "More.")
        await delivered(journal, 2)
    assert platform.sent[3:] == [("room", "More.")]


async def test_a_platform_that_shows_no_activities_is_spared_them(memory, journal):
    platform = Platform()
    async with serving(memory, platform):
        await journal.append(ChatActivity(activity="thought", text="hm"), session="room")
        await draft(journal, "room", "Yes.")
        await delivered(journal, 1)
        assert platform.port is not None
        assert [record.kind async for record in platform.port.history("room")] == ["ChatActivity", "ChatEfferent"]
    assert platform.sent == [("room", "Yes.")]
