"""Group commit: appends share a flush of the disk, and each still has its own fence, its own answer and its own end."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from journals import (
    Claim,
    ClaimLost,
    EmbeddedServer,
    FenceRefused,
    JetStreamStore,
    Journal,
    StoreFull,
    StoreRefused,
    Unacknowledged,
)
from journals._errors import BatchLost
from journals._jetstream import _grouping
from journals._jetstream._grouping import FEW, SOME, Fenced, GroupCommit
from journals._log import Fence, Message
from tests.journals.kinds import Said, registry
from tests.journals.servers import accounts, external

BATCH_S = 0.0025
"""What a batch costs a server beside the flush of its disk."""


def message(name: str, body: bytes = b"") -> Message:
    return Message(f"in.{name}", {}, body)


class Server:
    """Answers when told to, and remembers in which company each message came."""

    def __init__(self) -> None:
        self.came: list[list[str]] = []
        self._asked: list[asyncio.Future[int]] = []
        self._end = 0
        self.now = 0.0
        self.group = GroupCommit(self._send, self._send_together, lambda: self.now)

    def append(self, name: str, body: bytes = b"") -> asyncio.Future[int]:
        return asyncio.ensure_future(self.group.append(message(name, body), Fence(f"in.{name}", 0)))

    def _send(self, message: Message, fence: Fence | None) -> Awaitable[int]:
        return self._ask([message])

    def _send_together(self, messages: Sequence[Fenced]) -> Awaitable[int]:
        assert all(fence == Fence(message.subject, 0) for message, fence in messages)
        return self._ask([message for message, _ in messages])

    def _ask(self, messages: list[Message]) -> Awaitable[int]:
        self.came.append([message.subject.removeprefix("in.") for message in messages])
        self._asked.append(asyncio.get_running_loop().create_future())
        return self._asked[-1]

    async def answer(self, *, after: float = 0.0, error: Exception | None = None) -> None:
        """Answer the oldest question."""
        await settle()
        asked, came = self._asked.pop(0), self.came[-len(self._asked) - 1]
        self.now += after + (BATCH_S if len(came) > 1 else 0.0)
        if error is not None:
            asked.set_exception(error)
        else:
            self._end += len(came)
            asked.set_result(self._end)
        await settle()

    async def answer_all(self, after: float = 0.0) -> None:
        await settle()
        while self._asked:
            await self.answer(after=after)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
async def server() -> Server:
    return Server()


@pytest.fixture
async def slow(monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server that has been found to wait for its disk, for good."""
    monkeypatch.setattr(_grouping, "_BELIEVED_FIRST", 10**9)
    server = Server()
    writes = [server.append(f"first-{number}") for number in range(400)]
    await server.answer_all(after=0.001)
    await asyncio.gather(*writes)
    server.came.clear()
    return server


async def test_where_answers_come_quickly_everything_goes_at_once(server: Server):
    writes = [server.append(f"first-{number}") for number in range(1000)]
    await server.answer_all(after=20e-6)
    assert await asyncio.gather(*writes) == list(range(1, 1001))
    assert [len(names) for names in server.came if len(names) > 1] == [SOME]
    server.came.clear()
    writes = [server.append(f"{number}") for number in range(2000)]
    assert len(server.came) == 2000
    assert repr(server.group) == "<GroupCommit sends each at once, 2000 under way, 0 waiting>"
    await server.answer_all(after=20e-6)
    await asyncio.gather(*writes)


async def test_while_it_is_not_known_what_is_quicker_some_are_under_way(server: Server):
    writes = [server.append(f"{number}") for number in range(2000)]
    assert repr(server.group) == f"<GroupCommit tries, {SOME} under way, {2000 - SOME} waiting>"
    await server.answer_all(after=20e-6)
    await asyncio.gather(*writes)


async def test_of_many_that_come_at_once_to_a_slow_disk_most_go_together(server: Server):
    writes = [server.append(f"{number}") for number in range(1000)]
    await server.answer_all(after=0.001)
    alone = sum(len(names) == 1 for names in server.came)
    assert alone <= 3 * SOME
    assert [len(names) for names in server.came if len(names) > 1] == [SOME, 1000 - SOME - alone]
    assert await asyncio.gather(*writes) == list(range(1, 1001))


async def test_a_slow_disk_is_noticed_where_writers_come_in_rounds(server: Server):
    for _ in range(4):
        writes = [server.append(f"{number}") for number in range(100)]
        await server.answer_all(after=0.001)
        await asyncio.gather(*writes)
    assert "gathers" in repr(server.group)


async def test_what_other_work_has_made_of_the_first_try_is_put_right_soon(server: Server):
    writes = [server.append(f"{number}") for number in range(200)]
    for _ in range(SOME):
        await server.answer(after=0.001)  # a process that has much else to do hears late
    await server.answer_all(after=20e-6)
    await asyncio.gather(*writes)
    assert "gathers" in repr(server.group)
    writes = [server.append(f"{number}") for number in range(2500)]
    await server.answer_all(after=20e-6)
    await asyncio.gather(*writes)
    assert "sends each at once" in repr(server.group)


async def test_a_lost_connection_is_no_quick_answer(server: Server):
    writes = [server.append(f"{number}") for number in range(SOME)]
    await server.answer(after=0.001)
    while server._asked:
        await server.answer(error=Unacknowledged("the connection was lost"))
    writes += [server.append(f"later-{number}") for number in range(400)]
    await server.answer_all(after=0.001)
    assert "gathers" in repr(server.group)
    await asyncio.gather(*writes, return_exceptions=True)


async def test_a_small_batch_decides_nothing(server: Server):
    writes = [server.append(f"{number}") for number in range(SOME + FEW + 1)]
    await server.answer_all(after=20e-6)
    assert "tries" in repr(server.group)
    await asyncio.gather(*writes)


async def test_few_go_alone_and_at_once_however_slow_the_answers_are(slow: Server):
    writes = [slow.append(f"{number}") for number in range(FEW)]
    assert slow.came == [[f"{number}"] for number in range(FEW)]
    await slow.answer_all(after=0.001)
    await asyncio.gather(*writes)


async def test_what_waits_goes_together_and_each_hears_its_own_position(slow: Server):
    writes = [slow.append(f"{number}") for number in range(100)]
    assert repr(slow.group) == "<GroupCommit gathers, 8 under way, 92 waiting>"
    before = slow._end
    await slow.answer_all(after=0.001)
    assert slow.came[FEW:] == [[f"{number}" for number in range(FEW, 100)]]
    assert await asyncio.gather(*writes) == list(range(before + 1, before + 101))


async def test_what_comes_during_a_batch_waits_for_the_next(slow: Server):
    writes = [slow.append(f"{number}") for number in range(50)]
    for _ in range(FEW):
        await slow.answer()
    writes += [slow.append(f"late-{number}") for number in range(20)]
    assert len(slow.came) == FEW + 1
    await slow.answer()
    assert slow.came[-1] == [f"late-{number}" for number in range(20)]
    await slow.answer_all()
    await asyncio.gather(*writes)


async def test_one_refused_fence_refuses_nobody_else(slow: Server):
    writes = [slow.append(f"{number}") for number in range(FEW + 20)]
    for _ in range(FEW):
        await slow.answer()
    await slow.answer(error=FenceRefused("wrong last sequence"))
    assert slow.came[FEW + 1 :] == [[f"{number}"] for number in range(FEW, FEW + 20)]
    for number in range(20):
        await slow.answer(error=FenceRefused("wrong last sequence") if number == 3 else None)
    ends = await asyncio.gather(*writes, return_exceptions=True)
    assert [number for number, end in enumerate(ends) if isinstance(end, FenceRefused)] == [FEW + 3]
    assert all(isinstance(end, int) for number, end in enumerate(ends) if number != FEW + 3)


async def test_where_there_is_no_room_for_all_each_hears_it_for_itself(slow: Server):
    writes = [slow.append(f"{number}") for number in range(FEW + 10)]
    for _ in range(FEW):
        await slow.answer()
    await slow.answer(error=StoreFull("no room for all of it"))
    for number in range(10):
        await slow.answer(error=StoreFull("full") if number > 4 else None)
    ends = await asyncio.gather(*writes, return_exceptions=True)
    assert [isinstance(end, StoreFull) for end in ends] == [False] * (FEW + 5) + [True] * 5


async def test_when_a_batch_goes_unanswered_each_of_its_writers_hears_it(slow: Server):
    writes = [slow.append(f"{number}") for number in range(FEW + 10)]
    for _ in range(FEW):
        await slow.answer()
    await slow.answer(error=Unacknowledged("the connection was lost"))
    ends = await asyncio.gather(*writes[FEW:], return_exceptions=True)
    assert all(isinstance(end, Unacknowledged) for end in ends)
    assert len(set(map(id, ends))) == 10
    assert len(slow.came) == FEW + 1  # whether it was stored is for each writer to find out


async def test_when_a_part_of_a_batch_is_lost_nothing_of_it_is_stored_and_all_go_one_by_one(slow: Server):
    writes = [slow.append(f"{number}") for number in range(FEW + 10)]
    for _ in range(FEW):
        await slow.answer()
    await slow.answer(error=BatchLost("the batch is incomplete"))
    assert slow.came[FEW + 1 :] == [[f"{number}"] for number in range(FEW, FEW + 10)]
    await slow.answer_all()
    assert all(isinstance(end, int) for end in await asyncio.gather(*writes))


async def test_a_defect_is_told_to_everybody_whom_it_concerns_and_ends_nothing_else(slow: Server):
    writes = [slow.append(f"{number}") for number in range(FEW + 10)]
    for _ in range(FEW):
        await slow.answer()
    writes += [slow.append(f"late-{number}") for number in range(10)]
    await slow.answer(error=RuntimeError("a defect"))
    await slow.answer_all()
    ends = await asyncio.gather(*writes, return_exceptions=True)
    assert [str(end) for end in ends[FEW:-10]] == ["a defect"] * 10
    assert all(isinstance(end, int) for end in ends[:FEW] + ends[-10:])


async def test_whoever_has_gone_away_is_not_written_and_holds_nobody_up(slow: Server):
    writes = [slow.append(f"{number}") for number in range(FEW + 20)]
    for number in range(FEW, FEW + 20, 2):
        writes[number].cancel()
    await slow.answer_all()
    assert slow.came[FEW:] == [[f"{number}" for number in range(FEW + 1, FEW + 20, 2)]]
    assert all(isinstance(write.result(), int) for write in writes if not write.cancelled())


async def test_nobody_at_all_is_left_of_a_batch(slow: Server):
    writes = [slow.append(f"{number}") for number in range(FEW + 20)]
    for write in writes[FEW:]:
        write.cancel()
    await slow.answer_all()
    assert len(slow.came) == FEW
    await asyncio.gather(slow.append("next"), slow.answer_all())


async def test_a_subject_stands_once_in_a_batch_since_its_fence_means_what_is_stored(slow: Server):
    writes = [slow.append(f"{number}") for number in range(FEW)]
    writes += [slow.append(f"{number % 12}") for number in range(24)]
    await slow.answer_all()
    assert sorted(map(len, slow.came[FEW:])) == [12, 12]
    assert all(len(set(names)) == len(names) for names in slow.came)
    await asyncio.gather(*writes)


async def test_a_batch_is_bounded_in_number_and_in_bytes(slow: Server):
    writes = [slow.append(f"{number}") for number in range(FEW + 2100)]
    await slow.answer_all()
    assert [len(names) for names in slow.came[FEW : FEW + 3]] == [1000, 1000, 100]
    slow.came.clear()
    writes += [slow.append(f"big-{number}", b"x" * 1024 * 1024) for number in range(FEW + 20)]
    await slow.answer_all()
    assert max(map(len, slow.came)) == 4
    await asyncio.gather(*writes)


async def test_what_was_found_out_is_tried_again(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_grouping, "_BELIEVED", 1024)
    for after, gathers in ((0.001, True), (20e-6, False), (0.001, True)):
        for _ in range(8):
            writes = [server.append(f"{number}") for number in range(2000)]
            await server.answer_all(after=after)
            await asyncio.gather(*writes)
        assert ("gathers" in repr(server.group)) is gathers


# On a real server


@pytest.fixture
def gathering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that waits behind two is gathered, as behind eight where the disk is slow."""
    changed = {"FEW": 2, "SOME": 2, "_WORTH": -1.0, "_BELIEVED_FIRST": 10**9}
    for name, value in changed.items():
        monkeypatch.setattr(_grouping, name, value)


Connect = Callable[[], Awaitable[JetStreamStore]]


async def written(journal: Journal) -> dict[str, tuple[int, str]]:
    records = [record async for record in journal.read()]
    assert len({(record.session, record.id) for record in records}) == len(records)
    return {f"{record.session}/{record.id}": (record.position, record.entry.text) for record in records}  # type: ignore[attr-defined]


async def test_many_sessions_write_together_and_all_is_where_they_were_told(
    gathering: None, nats_server: EmbeddedServer, coven_name: str
):
    async with await JetStreamStore.connect(nats_server.url, coven_name, token=nats_server.token) as store:
        journal = await store.open("chat", registry())

        async def converse(session: str) -> dict[str, tuple[int, str]]:
            told: dict[str, tuple[int, str]] = {}
            for number in range(10):
                text = f"{session} says {number}"
                appended = await journal.append(Said(text=text), session=session, id=str(number))
                assert appended.created
                told[f"{session}/{number}"] = (appended.record.position, text)
            return told

        told = await asyncio.gather(*(converse(f"s{number}") for number in range(100)))
        assert "gathers" in repr(journal.log._group)  # type: ignore[attr-defined]
        assert await written(journal) == {key: value for each in told for key, value in each.items()}


@pytest.mark.parametrize("seed", range(3))
async def test_two_workers_of_the_same_sessions_refuse_each_other_and_nobody_else(
    gathering: None, nats_server: EmbeddedServer, coven_name: str, seed: int
):
    """The older owner of a session is refused inside a batch as well, and its neighbours in the batch are not."""
    chance = random.Random(seed)

    async def connect() -> JetStreamStore:
        return await JetStreamStore.connect(nats_server.url, coven_name, token=nats_server.token)

    async with await connect() as ours, await connect() as theirs:
        journals = [await ours.open("chat", registry()), await theirs.open("chat", registry())]
        told: dict[str, tuple[int, str]] = {}
        owners: dict[str, list[Claim]] = {}

        async def work(who: int, session: str) -> None:
            claim = await journals[who].claim(session, f"worker {who}")
            owners.setdefault(session, []).append(claim)
            for number in range(8):
                text, id = f"{who}", f"{who}-{number}"
                try:
                    appended = await journals[who].append(Said(text=text), session=session, id=id, expect=claim)
                except ClaimLost:
                    return
                told[f"{session}/{id}"] = (appended.record.position, text)
                if chance.random() < 0.1:
                    await asyncio.sleep(0)

        both = [work(who, f"s{number}") for number in range(60) for who in chance.sample((0, 1), 2)]
        await asyncio.gather(*both)
        found = await written(journals[0])
        assert found == told
        for session, claims in owners.items():
            first, second = sorted(claims, key=lambda claim: claim.position)
            late = [
                position
                for key, (position, text) in found.items()
                if key.startswith(f"{session}/") and text == first.owner[-1] and position > second.position
            ]
            assert not late, f"the older owner of {session} wrote after it was relieved"


async def test_a_write_from_outside_spoils_one_session_and_is_overcome(
    gathering: None, nats_server: EmbeddedServer, coven_name: str
):
    async with await JetStreamStore.connect(nats_server.url, coven_name, token=nats_server.token) as store:
        ours, theirs = await store.open("chat", registry()), await store.open("chat", registry())
        sessions = [f"s{number}" for number in range(50)]
        await asyncio.gather(*(ours.append(Said(text="first"), session=session, id="1") for session in sessions))
        await theirs.append(Said(text="from outside"), session="s30", id="outside")
        appended = await asyncio.gather(
            *(ours.append(Said(text="second"), session=session, id="2") for session in sessions)
        )
        assert all(one.created for one in appended)
        assert len(await written(ours)) == 101


async def test_what_one_session_is_not_permitted_keeps_no_other_from_being_written(gathering: None, tmp_path: Path):
    async with external(tmp_path, accounts('publish: {deny: ["hearth.chat.in.denied"]}')) as port:
        url = f"nats://app:canary@127.0.0.1:{port}"
        async with await JetStreamStore.connect(url, "hearth", patience=0) as store:
            journal = await store.open("chat", registry())
            others = [f"s{number}" for number in range(40)]
            await asyncio.gather(*(journal.append(Said(text="x"), session=session, id="0") for session in others))
            assert "gathers" in repr(journal.log._group)  # type: ignore[attr-defined]
            sessions = [*(f"t{number}" for number in range(20)), "denied", *(f"u{number}" for number in range(20))]
            written = [journal.append(Said(text="x"), session=session, id="1") for session in sessions]
            ends = dict(zip(sessions, await asyncio.gather(*written, return_exceptions=True), strict=True))
            assert isinstance(ends.pop("denied"), StoreRefused)
            assert not [end for end in ends.values() if isinstance(end, BaseException)]


async def test_what_was_acknowledged_in_a_batch_outlives_a_kill_of_the_server(gathering: None, tmp_path: Path):
    async with (
        EmbeddedServer(tmp_path, durability="power") as server,
        await JetStreamStore.connect(server.url, "hearth", token=server.token) as store,
    ):
        journal = await store.open("chat", registry())
        told: dict[str, tuple[int, str]] = {}
        enough = asyncio.Event()

        async def converse(session: str) -> None:
            for number in range(40):
                text = f"{session} says {number}"
                appended = await journal.append(Said(text=text), session=session, id=str(number))
                told[f"{session}/{number}"] = (appended.record.position, text)
                if len(told) > 500:
                    enough.set()

        async def kill() -> None:
            await enough.wait()
            os.kill(server.pid, signal.SIGKILL)
            await server.wait_failed()
            await server.restart()

        await asyncio.gather(kill(), *(converse(f"s{number}") for number in range(50)))
        assert await written(journal) == told
        assert len(told) == 2000
