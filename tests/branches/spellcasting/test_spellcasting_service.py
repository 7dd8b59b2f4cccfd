"""Every invocation gets exactly one outcome, in order within its session, and nothing is silently cast twice."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec
import pytest

from branches.spellcasting import SpellFailed, SpellInvocation, SpellResult, SpellsSettled, SpellStarted
from branches.spellcasting.calls import SETTLED_SESSION
from journals import Lane, MemoryStore, derive_id
from journals._log import Message


async def test_an_invocation_is_started_cast_and_answered(workshop: Any, bell: Any):
    async with workshop.running():
        invocation = await workshop.invoke("c1", tone="a", times=2)
        result = await workshop.outcome("c1")
    assert await workshop.kinds("s") == ["SpellInvocation", "SpellStarted", "SpellResult"]
    assert result.entry == SpellResult(correlation_id="c1", result={"heard": ["tone", "times"]})
    [(spell, casting)] = bell.casts
    assert (spell.tone, spell.times) == ("a", 2)
    assert (casting.id, casting.session, casting.grants) == ("c1", "s", ("net",))
    assert invocation.position < result.position


async def test_what_the_service_writes_inherits_the_envelope_of_its_invocation(workshop: Any):
    async with workshop.running():
        invocation = await workshop.invoke("c1", tone="a")
        await workshop.outcome("c1")
    written = [record async for record in workshop.journal.read(session="s", kinds=["SpellStarted", "SpellResult"])]
    assert len(written) == 2
    for record in written:
        assert (record.session, record.correlation_id, record.origin) == ("s", "c1", "console")
        assert record.causation_id == invocation.id
        assert record.lane is Lane.OUT


async def test_calls_that_came_before_the_service_started_are_answered(workshop: Any, bell: Any):
    for number in range(3):
        await workshop.invoke(f"c{number}", tone=str(number))
    async with workshop.running():
        await workshop.outcome("c2")
    assert [spell.tone for spell, _ in bell.casts] == ["0", "1", "2"]


async def test_within_a_session_calls_run_in_order_one_at_a_time(workshop: Any, bell: Any):
    released = bell.hold("slow")
    async with workshop.running():
        await workshop.invoke("c1", tone="slow")
        await workshop.invoke("c2", tone="quick")
        await workshop.invoke("c3", tone="quick")
        await bell.has_cast(1)
        assert len(bell.casts) == 1
        released.set()
        await workshop.outcome("c3")
    kinds = [record.correlation_id async for record in workshop.journal.read(kinds=["SpellStarted", "SpellResult"])]
    assert kinds == ["c1", "c1", "c2", "c2", "c3", "c3"]


async def test_sessions_do_not_wait_for_each_other(workshop: Any, bell: Any):
    released = bell.hold("slow")
    async with workshop.running():
        await workshop.invoke("c1", session="one", tone="slow")
        await bell.has_cast(1)
        await workshop.invoke("c2", session="two", tone="quick")
        await workshop.outcome("c2")
        assert "SpellResult" not in await workshop.kinds("one")
        released.set()
        await workshop.outcome("c1")


async def test_a_session_is_claimed_once(workshop: Any):
    async with workshop.running():
        for number in range(5):
            await workshop.invoke(f"c{number}", tone="a")
        await workshop.outcome("c4")
    # Of a journal's positions only claims are no records: five calls of three records, one claim, one that began.
    assert await workshop.journal.end() == 5 * 3 + 2


@pytest.mark.parametrize(
    ("spell", "arguments", "code", "says"),
    [
        ("bell.rnig", {}, "unknown_spell", "did you mean bell.ring?"),
        ("nothing.at_all", {}, "unknown_spell", "There are bell.look, bell.ring"),
        ("temple.pray", {}, "unavailable", "no substrate 'temple' is configured here"),
        ("bell.ring", {}, "bad_arguments", "missing required field `tone`. It takes `tone` (string, required)"),
        ("bell.ring", {"tone": 7}, "bad_arguments", "Expected `str`, got `int` - at `$.tone`"),
        ("bell.ring", {"tone": "a", "loud": True}, "bad_arguments", "unknown field `loud`"),
        ("bell.ring", {"tone": "a", "times": "2"}, "bad_arguments", "`times` (integer, default 1)"),
    ],
)
async def test_what_cannot_be_cast_faults_at_once_and_is_never_started(
    workshop: Any, bell: Any, spell: str, arguments: dict[str, Any], code: str, says: str
):
    async with workshop.running():
        await workshop.invoke("c1", spell, **arguments)
        fault = await workshop.outcome("c1")
    assert fault.entry.code == code
    assert says in fault.entry.error
    assert await workshop.kinds() == ["SpellInvocation", "SpellFault"]
    assert bell.casts == []


async def test_an_expected_failure_of_the_substrate_is_a_fault_with_its_code(workshop: Any, bell: Any):
    bell.answer = lambda spell: SpellFailed("denied", "the bell is guarded \ud800")
    async with workshop.running():
        await workshop.invoke("c1", tone="a")
        fault = await workshop.outcome("c1")
        await workshop.invoke("c2", "bell.look")
        await workshop.outcome("c2")
    assert (fault.entry.code, fault.entry.error) == ("denied", "the bell is guarded ?")


async def test_a_result_that_json_cannot_hold_is_a_fault_which_says_that_the_spell_was_cast(workshop: Any, bell: Any):
    bell.answer = lambda spell: {"bell": object()}
    async with workshop.running():
        await workshop.invoke("c1", tone="a")
        fault = await workshop.outcome("c1")
    assert fault.kind == "SpellFault"
    assert "was cast, but its result cannot be recorded" in fault.entry.error


async def test_a_result_over_the_limit_is_a_fault(workshop: Any, bell: Any):
    bell.answer = lambda spell: "x" * (65 * 1024 * 1024)
    async with workshop.running():
        await workshop.invoke("c1", tone="a")
        fault = await workshop.outcome("c1")
    assert "over the limit" in fault.entry.error


async def test_a_large_result_arrives_whole(workshop: Any, bell: Any):
    bell.answer = lambda spell: "x" * (5 * 1024 * 1024)
    async with workshop.running():
        await workshop.invoke("c1", tone="a")
        result = await workshop.outcome("c1")
    assert len(result.entry.result) == 5 * 1024 * 1024


async def test_after_a_crash_while_casting_the_call_is_in_doubt_and_cast_no_second_time(workshop: Any, bell: Any):
    bell.hold("slow")
    async with workshop.running():
        await workshop.invoke("c1", tone="slow")
        await workshop.invoke("c2", tone="quick")
        await bell.has_cast(1)
    async with workshop.running("second"):
        fault = await workshop.outcome("c1")
        await workshop.outcome("c2")
    async with workshop.running("third"):
        pass
    assert fault.entry.code == "in_doubt"
    assert "may have happened in full, in part or not at all" in fault.entry.error
    assert [spell.tone for spell, _ in bell.casts] == ["slow", "quick"]
    assert [kind for kind in await workshop.kinds() if kind != "SpellInvocation"] == [
        "SpellStarted",
        "SpellFault",
        "SpellStarted",
        "SpellResult",
    ]


async def test_after_a_crash_an_idempotent_spell_is_cast_again_under_its_old_id(workshop: Any, bell: Any):
    released = bell.hold("back")
    async with workshop.running():
        await workshop.invoke("c1", "bell.look", side="back")
        await bell.has_cast(1)
    released.set()
    async with workshop.running("second"):
        result = await workshop.outcome("c1")
    assert result.kind == "SpellResult"
    assert [casting.id for _, casting in bell.casts] == ["c1", "c1"]
    assert await workshop.kinds() == ["SpellInvocation", "SpellResult"]


async def test_after_a_crash_no_call_overtakes_one_that_may_be_repeated(workshop: Any, bell: Any):
    """Who does not wait for a write any more may have written something else since: that must be what stays."""
    released = bell.hold("back")
    async with workshop.running():
        await workshop.invoke("c1", "bell.look", side="back")
        await bell.has_cast(1)
        await workshop.invoke("c2", "bell.look")
    async with workshop.running("second"):
        await bell.has_cast(2)
        released.set()
        await workshop.outcome("c2")
    results = [record.correlation_id async for record in workshop.journal.read(kinds=["SpellResult"])]
    assert results == ["c1", "c2"]
    assert [spell.side for spell, _ in bell.casts] == ["back", "back", "front"]


async def test_an_idempotent_spell_that_waited_and_is_no_longer_configured_may_have_been_cast(workshop: Any, bell: Any):
    bell.hold("back")
    async with workshop.running():
        await workshop.invoke("c1", "bell.look", side="back")
        await bell.has_cast(1)
    async with workshop.running("second", substrates={}):
        fault = await workshop.outcome("c1")
        await workshop.invoke("c2", "bell.look")
        later = await workshop.outcome("c2")
    assert (fault.entry.code, later.entry.code) == ("unavailable", "unavailable")
    assert "may have been cast before" in fault.entry.error
    assert "may have been cast before" not in later.entry.error


async def test_what_was_started_and_is_no_longer_configured_is_in_doubt_not_unavailable(workshop: Any, bell: Any):
    bell.hold("slow")
    async with workshop.running():
        await workshop.invoke("c1", tone="slow")
        await bell.has_cast(1)
    async with workshop.running("second", substrates={}):
        fault = await workshop.outcome("c1")
    assert fault.entry.code == "in_doubt"


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        (ZeroDivisionError("key=k1"), r"it raised ZeroDivisionError \(conftest.py, line \d+\); the log says more"),
        (SystemExit("key=k1"), r"it raised SystemExit \(conftest.py, line \d+\); the log says more"),
        (asyncio.CancelledError(), "its own work was cancelled"),
        (TimeoutError("key=k1"), r"it raised TimeoutError \(conftest.py, line \d+\); the log says more"),
    ],
)
async def test_a_bug_in_a_substrate_is_the_fault_of_its_own_call_alone(
    workshop: Any, bell: Any, raised: BaseException, says: str
):
    """Its words were chosen for nobody and may hold a key, so they are neither recorded nor shown to a model."""
    released = bell.hold("slow")
    bell.answer = lambda spell: raised if spell.tone == "a" else "fine"
    async with workshop.running() as service:
        await workshop.invoke("other", session="elsewhere", tone="slow")
        await bell.has_cast(1)
        await workshop.invoke("c1", tone="a")
        await workshop.invoke("c2", tone="b")
        fault = await workshop.outcome("c1")
        assert (await workshop.outcome("c2")).entry.result == "fine"
        released.set()
        assert (await workshop.outcome("other")).entry.result == "fine"
        assert not service.done()
    assert fault.entry.code == "failed"
    assert re.fullmatch(rf"bell\.ring: {says}. It may have happened in full, in part or not at all", fault.entry.error)


async def test_of_a_spell_that_may_be_repeated_a_bug_leaves_no_doubt(workshop: Any, bell: Any):
    bell.answer = lambda spell: ZeroDivisionError("a bug")
    async with workshop.running():
        await workshop.invoke("c1", "bell.look")
        fault = await workshop.outcome("c1")
    assert re.fullmatch(r"bell\.look: it raised ZeroDivisionError \(conftest\.py.*the log says more", fault.entry.error)
    assert len(bell.casts) == 1


async def test_where_a_bug_is_stands_in_the_log(workshop: Any, bell: Any, caplog: pytest.LogCaptureFixture):
    def answer(spell: Any) -> Any:
        return {}["no such key"]

    bell.answer = answer
    async with workshop.running():
        await workshop.invoke("c1", tone="a")
        await workshop.outcome("c1")
    line = answer.__code__.co_firstlineno + 1
    assert f"bell.ring raised KeyError: 'no such key' (test_spellcasting_service.py, line {line})" in caplog.text


async def test_a_cast_that_takes_too_long_is_cancelled_and_the_next_one_of_its_session_goes_on(
    workshop: Any, bell: Any
):
    bell.hold("never")
    async with workshop.running():
        await workshop.invoke("c1", "bell.wait")
        await workshop.invoke("c2", tone="b")
        fault = await workshop.outcome("c1")
        assert (await workshop.outcome("c2")).kind == "SpellResult"
    assert fault.entry.code == "timeout"
    assert fault.entry.error.startswith("bell.wait: it took longer than 0 s and was cancelled.")


class Stubborn:
    """Another substrate, and what it makes of it that it is cancelled."""

    def __init__(self, other: Any, raised: Exception | None) -> None:
        self._other, self._raised = other, raised

    async def cast(self, spell: Any, casting: Any) -> Any:
        try:
            return await self._other.cast(spell, casting)
        except asyncio.CancelledError:
            if self._raised is not None:
                raise self._raised from None
            return "it was done already"

    async def close(self) -> None: ...


@pytest.mark.parametrize("raised", [SpellFailed("failed", "the bell broke"), ZeroDivisionError("a bug"), None])
@pytest.mark.parametrize("spell", ["bell.ring", "bell.look"])
async def test_who_is_stopped_casts_nothing_more_whatever_a_substrate_makes_of_it(
    workshop: Any, bell: Any, raised: Exception | None, spell: str
):
    bell.hold("slow")
    service = await workshop.service(substrates={"bell": Stubborn(bell, raised)})
    await workshop.invoke("c1", spell, **({"tone": "slow"} if spell == "bell.ring" else {"side": "slow"}))
    await workshop.invoke("c2", tone="next")
    running = asyncio.create_task(service.run(lambda: None))
    await bell.has_cast(1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(bell.casts) == 1
    outcomes = [kind for kind in await workshop.kinds() if kind in ("SpellResult", "SpellFault")]
    assert outcomes == ([] if raised is not None else ["SpellResult"])


async def test_the_same_service_object_can_be_run_again(workshop: Any, bell: Any):
    service = await workshop.service()
    bell.hold("slow")
    await workshop.invoke("c1", tone="slow")
    first = asyncio.create_task(service.run(lambda: None))
    await bell.has_cast(1)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await workshop.invoke("c2", tone="a")
    again = asyncio.create_task(service.run(lambda: None))
    assert (await workshop.outcome("c1")).entry.code == "in_doubt"
    assert (await workshop.outcome("c2")).kind == "SpellResult"
    again.cancel()
    with pytest.raises(asyncio.CancelledError):
        await again


async def test_of_two_services_of_one_session_the_older_is_refused(workshop: Any, bell: Any):
    released = bell.hold("slow")
    async with workshop.running("older") as older:
        await workshop.invoke("c1", tone="slow")
        await workshop.invoke("c2", tone="quick")
        await bell.has_cast(1)
        async with workshop.running("newer") as newer:
            assert (await workshop.outcome("c1")).entry.code == "in_doubt"
            await workshop.outcome("c2")
            released.set()
            # The older one's result of c1 is refused; it leaves this session alone and goes on serving others.
            await workshop.invoke("c3", tone="quick")
            await workshop.outcome("c3")
            assert not older.done()
            assert not newer.done()
    outcomes = [record async for record in workshop.journal.read(kinds=["SpellResult", "SpellFault"])]
    assert sorted(record.correlation_id for record in outcomes) == ["c1", "c2", "c3"]
    assert sorted(spell.tone for spell, _ in bell.casts) == ["quick", "quick", "slow"]


async def test_a_service_that_lost_one_session_goes_on_with_the_others(workshop: Any, bell: Any):
    released = bell.hold("slow")
    async with workshop.running("older"):
        await workshop.invoke("c1", session="taken", tone="slow")
        await bell.has_cast(1)
        taker = await workshop.store.open("spellcasting", workshop.journal.registry)
        await taker.claim("taken", "somebody newer")
        released.set()
        await workshop.invoke("c2", session="kept", tone="a")
        await workshop.outcome("c2")
        await workshop.invoke("c3", session="taken", tone="a")
        await workshop.invoke("c4", session="kept", tone="a")
        await workshop.outcome("c4")
    assert await workshop.kinds("taken") == ["SpellInvocation", "SpellStarted", "SpellInvocation"]


async def test_a_session_that_an_older_service_takes_while_it_gives_way_is_taken_back(workshop: Any, bell: Any):
    other = await workshop.store.open("spellcasting", workshop.journal.registry)
    older = await other.claim(SETTLED_SESSION, "older")
    released = bell.hold("slow")
    async with workshop.running("newer"):
        await workshop.invoke("c1", tone="slow")
        await workshop.invoke("c2", tone="quick")
        await bell.has_cast(1)
        await other.claim("s", "older", term=older.position)
        released.set()
        assert (await workshop.outcome("c1")).entry.code == "in_doubt"
        assert (await workshop.outcome("c2")).kind == "SpellResult"
    assert sorted(spell.tone for spell, _ in bell.casts) == ["quick", "slow"]


async def test_a_start_refused_by_a_newer_owner_who_started_the_same_call_is_not_cast(workshop: Any, bell: Any):
    """The older service finds the start under the id that it wanted to write: it must not take it for its own."""
    await workshop.invoke("c0", tone="a")
    async with workshop.running("older"):
        await workshop.outcome("c0")
        newer = await workshop.store.open("spellcasting", workshop.journal.registry)
        claim = await newer.claim("s", "newer")
        await newer.append(
            SpellStarted(correlation_id="c1", spell="bell.ring"),
            session="s",
            id=derive_id("started", "c1"),
            correlation_id="c1",
            expect=claim,
        )
        await workshop.invoke("c1", tone="b")
        await workshop.invoke("c2", session="other", tone="c")
        await workshop.outcome("c2")
    assert [spell.tone for spell, _ in bell.casts] == ["a", "c"]


async def test_an_invocation_that_cannot_be_read_faults_under_the_call_id_of_its_envelope(workshop: Any):
    newer = msgspec.defstruct(
        "SpellInvocation",
        [("correlation_id", str), ("incantation", str)],
        bases=(type(SpellStarted(correlation_id="", spell="")).__mro__[1],),
        namespace={"schema_version": 9},
        frozen=True,
        kw_only=True,
    )
    registry = type(workshop.journal.registry)([newer])
    journal = await workshop.store.open("spellcasting", registry)
    await journal.append(newer(correlation_id="c0", incantation="abracadabra"), session="s")
    await journal.append(newer(correlation_id="c1", incantation="abracadabra"), session="s", correlation_id="c1")
    async with workshop.running():
        fault = await workshop.outcome("c1")
        await workshop.invoke("c2", tone="a")
        assert (await workshop.outcome("c2")).kind == "SpellResult"
    assert "version 9" in fault.entry.error


async def test_imported_invocations_are_history_and_are_not_cast(workshop: Any, bell: Any):
    record = await workshop.invoke("c1", tone="a")
    elsewhere = MemoryStore()
    journal = await elsewhere.open("spellcasting", workshop.journal.registry)
    await journal.import_record(record)
    workshop.store, workshop.journal = elsewhere, journal
    async with workshop.running():
        await workshop.invoke("c2", tone="b")
        await workshop.outcome("c2")
    assert [spell.tone for spell, _ in bell.casts] == ["b"]


async def test_a_second_invocation_with_the_same_call_id_changes_nothing(workshop: Any, bell: Any):
    async with workshop.running():
        await workshop.invoke("c1", tone="a")
        await workshop.outcome("c1")
        await workshop.invoke("c1", tone="a")
        await workshop.invoke("c2", tone="b")
        await workshop.outcome("c2")
    outcomes = [record.correlation_id async for record in workshop.journal.read(kinds=["SpellResult", "SpellFault"])]
    assert outcomes == ["c1", "c2"]
    assert [spell.tone for spell, _ in bell.casts] == ["a", "b"]


async def test_a_call_id_used_again_for_another_spell_casts_nothing_and_stops_nothing(workshop: Any, bell: Any):
    async with workshop.running():
        await workshop.invoke("c1", tone="a")
        await workshop.outcome("c1")
        await workshop.invoke("c1", "bell.look")
        await workshop.invoke("c1", "temple.pray")
        await workshop.invoke("c2", tone="b")
        await workshop.outcome("c2")
    outcomes = [record.correlation_id async for record in workshop.journal.read(kinds=["SpellResult", "SpellFault"])]
    assert outcomes == ["c1", "c2"]
    assert [spell.tone for spell, _ in bell.casts] == ["a", "b"]


async def test_a_start_reads_only_what_followed_the_last_settled_position(workshop: Any, bell: Any):
    async with workshop.running(settled_every=10):
        for number in range(12):
            await workshop.invoke(f"c{number}", tone="a")
            await workshop.outcome(f"c{number}")
        settled = await workshop.journal.wait_for(lambda record: isinstance(record.entry, SpellsSettled), timeout=60)
    open_before = [
        record.correlation_id
        async for record in workshop.journal.read(before=settled.entry.position + 1, kinds=["SpellInvocation"])
    ]
    answered = [record.correlation_id async for record in workshop.journal.read(kinds=["SpellResult"])]
    assert set(open_before) <= set(answered)
    async with workshop.running("second", settled_every=10):
        await workshop.invoke("last", tone="b")
        await workshop.outcome("last")
    assert len(bell.casts) == 13


async def test_an_open_call_is_never_counted_as_settled(workshop: Any, bell: Any):
    bell.hold("slow")
    async with workshop.running(settled_every=5):
        stuck = await workshop.invoke("stuck", session="stuck", tone="slow")
        for number in range(10):
            await workshop.invoke(f"c{number}", tone="a")
            await workshop.outcome(f"c{number}")
    settled = [record.entry.position async for record in workshop.journal.read(kinds=["SpellsSettled"])]
    assert all(position < stuck.position for position in settled)
    async with workshop.running("second"):
        assert (await workshop.outcome("stuck")).entry.code == "in_doubt"


async def test_a_call_of_a_session_that_was_taken_over_is_never_counted_as_settled(workshop: Any, bell: Any):
    released = bell.hold("slow")
    async with workshop.running("older", settled_every=5):
        await workshop.invoke("c0", session="taken", tone="slow")
        await bell.has_cast(1)
        await (await workshop.store.open("spellcasting", workshop.journal.registry)).claim("taken", "newer")
        released.set()
        left = await workshop.invoke("c1", session="taken", tone="a")
        for number in range(10):
            await workshop.invoke(f"k{number}", session="kept", tone="a")
            await workshop.outcome(f"k{number}")
    assert [
        r.entry.position async for r in workshop.journal.read(kinds=["SpellsSettled"]) if r.position > left.position
    ] == []
    async with workshop.running("second"):
        assert (await workshop.outcome("c1")).kind == "SpellResult"


async def test_another_service_that_keeps_marks_neither_stops_this_one_nor_its_marks(workshop: Any):
    taker = await workshop.store.open("spellcasting", workshop.journal.registry)
    async with workshop.running(settled_every=5):
        for number in range(12):
            if number == 6:
                end = (await taker.claim(SETTLED_SESSION, "another service")).position
            await workshop.invoke(f"c{number}", tone="a")
            await workshop.outcome(f"c{number}")
        mark = await workshop.journal.wait_for(lambda r: isinstance(r.entry, SpellsSettled), after=end, timeout=60)
    assert mark.entry.position > end


async def test_its_repr_tells_how_much_is_open(workshop: Any, bell: Any):
    service = await workshop.service()
    assert repr(service) == "<SpellcastingService spellcasting 0 calls in 0 sessions>"
    bell.hold("slow")
    await workshop.invoke("c1", tone="slow")
    await workshop.invoke("c2", tone="slow")
    task = asyncio.create_task(service.run(lambda: None))
    await bell.has_cast(1)
    assert repr(service) == "<SpellcastingService spellcasting 2 calls in 1 sessions>"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("subject", "envelope"),
    [
        ("in.s", {"Coven-Correlation": "caf\u00e9"}),
        ("in.s", {"Coven-Correlation": "c" * 9000}),
        ("in.s", {"Coven-Correlation": "c", "Coven-Origin": "caf\u00e9"}),
        ("in." + "x" * 900, {"Coven-Correlation": "c"}),
    ],
)
@pytest.mark.parametrize("body", [b"not an invocation", b"look", b"ring"])
async def test_an_envelope_that_cannot_be_written_again_stops_nobody(
    workshop: Any, caplog: pytest.LogCaptureFixture, subject: str, envelope: dict[str, str], body: bytes
):
    calls = {
        b"ring": SpellInvocation(correlation_id="foreign", spell="bell.ring", arguments={"tone": "a"}),
        b"look": SpellInvocation(correlation_id="foreign", spell="bell.look", arguments={}),
    }
    if body in calls:
        body = workshop.journal.registry.encode(calls[body])
    headers = {"Coven-Kind": "SpellInvocation", "Coven-Id": "foreign", **envelope}
    await workshop.journal.log.append(Message(subject, headers, body))
    async with workshop.running() as service:
        await workshop.invoke("c1", tone="b")
        assert (await workshop.outcome("c1")).kind == "SpellResult"
        assert not service.done()
    async with workshop.running() as service:  # nor the next start
        await workshop.invoke("c2", tone="b")
        assert (await workshop.outcome("c2")).kind == "SpellResult"
    assert "the invocation at position 1" in caplog.text
