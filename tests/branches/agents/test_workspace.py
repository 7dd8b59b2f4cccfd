"""The variables of an entity that works with code, whatever happens to its process, its circle and its snapshots."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from branches.agents.call import Call
from branches.agents.cantrip import Cantrip
from branches.agents.circle import Circle, circle
from branches.agents.code import GATE_CALLS, RESTORED, CodeHost
from branches.agents.crystal import CrystalResponse
from branches.agents.forking import fork
from branches.agents.internal import CodeReturned, SandboxKept
from branches.agents.medium import CodeEnding, Finished, GateError, GateReply, GateValue, Medium, Seed
from branches.agents.wards import Ward
from branches.agents.workspace import PastCode, Workspace, limits_of
from coven.testing import ScriptedCrystal, calls, finishes, says
from coven.testing.scripted import runs
from journals import derive_id
from leaves.mediums.javascript import JavaScript
from leaves.mediums.python import Python
from policies import Outcome, action_result
from tests.branches.agents.bench import Bench


def echo(text: str) -> str:
    """Say it again."""
    return text


@pytest.fixture(params=[JavaScript, Python])
async def medium(request: pytest.FixtureRequest) -> AsyncIterator[Medium]:
    made = request.param()
    yield made
    await made.close()


class Silent:
    """A host whose gates give nothing."""

    async def call(self, gate: str, arguments: Any) -> GateReply:
        return GateValue(None)


def made(answers: list[Any], medium: Medium, *gates: Any, **more: Any) -> Cantrip:
    return Cantrip(
        ScriptedCrystal(answers), Call(), circle(["done", *gates], [Ward(max_turns=60)], medium.name), **more
    )


async def talk(bench: Bench, medium: Medium, cantrip: Cantrip, text: str, session: str = "s") -> str:
    async with bench.serve(cantrip.crystal, cantrip=cantrip, medium=only(medium)):
        return (await bench.talk(text, session)).text


def only(medium: Medium) -> Callable[[str], Medium]:
    """What gives this medium for any name."""

    def given(name: str) -> Medium:
        return medium

    return given


def nothing(call: str) -> None:
    """Nothing is recorded."""


def var(medium: Medium, assignment: str) -> str:
    return f"var {assignment}" if medium.name == "javascript" else assignment


async def value(workspace: Workspace, code: str, recorded: Any = nothing) -> Any:
    return (await workspace.run(code, Silent(), 1.0, "seed", recorded)).value


async def test_what_a_gate_gave_stays_when_the_circle_has_that_gate_no_longer(medium: Medium) -> None:
    bench = Bench()
    await talk(bench, medium, made([runs(var(medium, "x = echo('kept')")), finishes_in_code()], medium, echo), "one")
    assert await talk(bench, medium, made([runs("done(x)")], medium), "two") == "kept"
    assert await talk(bench, medium, made([runs("done(x + echo('!'))")], medium, echo), "three") == "kept!"


def finishes_in_code() -> CrystalResponse:
    return runs("done('ok')")


async def test_who_is_cut_off_while_it_is_made_again_can_begin_again(medium: Medium) -> None:
    circle_ = circle(["done", echo], [Ward(max_turns=3)], medium.name)
    workspace = Workspace(medium, circle_)
    workspace.remember(PastCode("call", var(medium, "x = echo('kept')"), 1.0, False, circle_))

    def cut_off(_: str) -> Outcome:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await value(workspace, "x", cut_off)
    assert workspace.has_past
    outcome = Outcome((action_result("echo", {"result": "kept"}),), 2.0)
    assert await value(workspace, "x", {derive_id("call", "0"): outcome}.get) == "kept"
    assert not workspace.has_past


async def test_the_newest_snapshot_that_is_of_use_counts(medium: Medium) -> None:
    circle_ = circle(["done"], [Ward(max_turns=3)], medium.name)
    first = Workspace(medium, circle_)
    await value(first, var(medium, "x = 'snapshot'"))
    taken = await first.snapshot()
    assert taken is not None
    second = Workspace(medium, circle_)
    second.remember(PastCode("a", "x = 'never run again'", 1.0, False, circle_, taken))
    second.remember(PastCode("b", "x = x + '!'", 1.0, False, circle_, taken[:-1] + b"?"))
    second.remember(PastCode("c", "x = x + '?'", 1.0, False, circle_))
    assert await value(second, "x") == "snapshot!?"


async def test_a_snapshot_is_the_mediums_own(medium: Medium) -> None:
    workspace = Workspace(medium, circle(["done"], [Ward(max_turns=3)], medium.name))
    await value(workspace, var(medium, "x = 7"))
    taken = await workspace.snapshot()
    sandbox = await medium.open((), limits_of(workspace.circle), taken)
    assert (await sandbox.run("x", Silent(), Seed(1.0, 1))).value == 7


async def test_an_episode_that_is_open_goes_on_from_its_own_snapshots() -> None:
    """Code that ran out of time is not run again: nobody could tell how far it would come."""
    javascript, bench = JavaScript(), Bench()
    hung = asyncio.Event()
    answers = [runs("let n = 0; while (true) n++")]

    class Stops:
        async def invoke(self, request: object, on_text: object = None) -> CrystalResponse:
            if answers:
                return answers.pop(0)
            hung.set()
            await asyncio.Event().wait()
            raise AssertionError

    wards = [Ward(max_turns=9), Ward(max_cpu_s=0.2)]
    first = Cantrip(Stops(), Call(), circle(["done"], wards, "javascript"))
    async with bench.serve(first.crystal, cantrip=first, medium=only(javascript)):
        prompt = await bench.ask("count")
        await hung.wait()
    (returned,) = [r.entry for r in await bench.records("CodeReturned")]
    (kept,) = [r.entry for r in await bench.records("SandboxKept")]
    assert isinstance(returned, CodeReturned)
    assert returned.ending == CodeEnding.TIMED_OUT
    assert isinstance(kept, SandboxKept)
    sandbox = await javascript.open(first.circle.gates, limits_of(first.circle), kept.variables)
    counted = (await sandbox.run("n", Silent(), Seed(1.0, 1))).value
    again = replace(first, crystal=ScriptedCrystal([runs("done(n)")]))
    async with bench.serve(again.crystal, cantrip=again, medium=only(javascript)):
        assert (await bench.response(prompt)).text == str(counted)
    await javascript.close()


async def test_a_child_is_given_a_context_that_is_longer_than_code_may_be(medium: Medium) -> None:
    workspace = Workspace(medium, circle(["done"], [Ward(max_turns=3)], medium.name), {"text": 'é"\\{0}' * 250_000})
    length = "context.text.length" if medium.name == "javascript" else "len(context['text'])"
    assert await value(workspace, length) == 6 * 250_000


async def test_a_context_for_which_there_is_no_room_is_an_error_of_the_childs_code() -> None:
    javascript = JavaScript()
    tight = circle(["done"], [Ward(max_turns=3), Ward(max_memory_mb=2)], "javascript")
    outcome = await Workspace(javascript, tight, "x" * 3_000_000).run("1", Silent(), 1.0, "seed", nothing)
    assert outcome.error is not None
    await javascript.close()


async def test_where_a_person_may_be_asked_code_waits_as_long_as_that_takes() -> None:
    usual = limits_of(circle(["done", echo], [Ward(max_turns=3)], "python")).wall_s
    days = 30 * 86_400
    assert usual < days
    assert limits_of(circle(["done", echo], [Ward(max_turns=3)], "python", approve=["echo"])).wall_s > days
    assert limits_of(circle(["done", "ask_person"], [Ward(max_turns=3)], "python")).wall_s > days


def host(circle_: Circle) -> CodeHost:
    async def never(*_: object) -> Any:
        raise AssertionError("nothing passes here")

    return CodeHost(circle_, None, 1.0, never)  # type: ignore[arg-type]


async def test_refused_calls_without_end_do_not_fill_the_hosts_memory() -> None:
    refusing = host(circle(["done"], [Ward(max_turns=3)], "python"))
    for _ in range(GATE_CALLS):
        assert isinstance(await refusing.call("nope", {"big": "x" * 3000}), GateError)
    assert [refusal.index for refusal in refusing.refusals] == list(range(len(refusing.refusals)))
    assert 100 < len(refusing.refusals) < GATE_CALLS
    assert isinstance(await refusing.call("nope", {}), Finished)


async def test_code_may_make_so_many_gate_calls_in_a_turn_and_no_more(medium: Medium) -> None:
    """What it did until then stays, and it is made again after a restart just so far."""
    if medium.name == "javascript":
        loop = "var n = 0; while (true) { n += 1; try { echo('x') } catch { } }"
    else:
        loop = "n = 0\nwhile True:\n    n += 1\n    try:\n        echo('x')\n    except Exception:\n        pass"
    bench, wards = Bench(), [Ward(max_turns=9), Ward(max_gate_calls=7)]

    def cantrip(*answers: CrystalResponse) -> Cantrip:
        return Cantrip(ScriptedCrystal(answers), Call(), circle(["done", echo], wards, medium.name))

    first = cantrip(runs(loop), runs("done(n)"))
    assert await talk(bench, medium, first, "count") == "8"
    assert "TooManyCalls: code may make 7 gate calls" in (first.crystal.requests[-1].messages[-1].content or "")  # type: ignore[attr-defined]
    assert len(await bench.records("GateCalled")) == 7
    assert await talk(bench, medium, cantrip(runs("done(n)")), "again") == "8"


async def test_done_is_no_call_too_many(medium: Medium) -> None:
    wards = [Ward(max_turns=9), Ward(max_gate_calls=1)]
    crystal = ScriptedCrystal([runs("echo('x')\ndone('ok')")])
    assert (
        await talk(Bench(), medium, Cantrip(crystal, Call(), circle(["done", echo], wards, medium.name)), "go") == "ok"
    )


async def test_who_loses_what_a_turn_did_with_the_variables_is_told() -> None:
    medium = JavaScript()
    cantrip = made([runs("var x = 1; (function f() { f() })()"), runs("done(typeof x)")], medium)
    assert await talk(Bench(), medium, cantrip, "go") == "undefined"
    shown = cantrip.crystal.requests[-1].messages[-1].content  # type: ignore[attr-defined]
    assert shown == f"Error: RangeError: the calls of the code went too deep\n{RESTORED}"
    await medium.close()


async def test_an_error_of_a_gate_keeps_its_name_in_code() -> None:
    refusing = host(circle(["done"], [Ward(max_turns=3), Ward(remove_gate="done")], "python"))
    seen = await refusing.call("nope", {})
    assert isinstance(seen, GateError)
    assert seen.name == "UnknownGate"
    assert seen.message.startswith("there is no gate 'nope'")
    removed = await refusing.call("done", {"answer": 1})
    assert isinstance(removed, GateError)
    assert (removed.name, removed.message) == ("GateError", "gate not available: done: a ward removed it")


async def test_a_fork_of_a_fork_has_the_crystal_that_it_was_forked_for() -> None:
    bench = Bench()
    journal = await bench.open()
    a, b, c = (ScriptedCrystal([finishes(name) for _ in range(3)]) for name in "abc")
    made_ = Cantrip(a, Call(), circle(["done"], [Ward(max_turns=3)]), crystals={"b": b, "c": c})
    async with bench.serve(a, cantrip=made_):
        assert (await bench.talk("one")).text == "a"
        await fork(journal, "s", -1, "second", crystal="b")
        assert (await bench.talk("two", "second")).text == "b"
        await fork(journal, "second", -1, "third", crystal="c")
        assert (await bench.talk("three", "third")).text == "c"
        await fork(journal, "second", -1, "fourth")
        assert (await bench.talk("four", "fourth")).text == "b"


async def test_an_entity_whose_medium_is_missing_disturbs_no_other() -> None:
    bench, javascript = Bench(), JavaScript()
    await talk(bench, javascript, made([finishes_in_code()], javascript), "one")
    plain = Cantrip(ScriptedCrystal([says("here")]), Call(), circle(["done"], [Ward(max_turns=3)]))
    async with bench.serve(plain.crystal, cantrip=plain):
        await bench.ask("two")
        assert (await bench.talk("hello", "other")).text == "here"
    await javascript.close()


async def test_a_session_that_is_bound_works_under_its_cantrip_from_its_next_episode_on() -> None:
    bench = Bench()
    first, second = ScriptedCrystal([calls(("echo", {"text": "x"})), finishes("a")]), ScriptedCrystal([finishes("b")])
    shared = circle(["done", echo], [Ward(max_turns=3)])
    asked, go_on = asyncio.Event(), asyncio.Event()

    class Waits:
        async def invoke(self, request: Any, on_text: Any = None) -> CrystalResponse:
            asked.set()
            await go_on.wait()
            return await first.invoke(request, on_text)

    waits = Waits()
    async with bench.serve(waits, cantrip=Cantrip(waits, Call(), shared)) as service:
        one = await bench.ask("one")
        await asked.wait()
        service.bind("s", Cantrip(second, Call(), shared))
        two = await bench.ask("two")
        go_on.set()
        assert [(await bench.response(one)).text, (await bench.response(two)).text] == ["a", "b"]


class Counted:
    """A medium that knows which of its sandboxes are open."""

    def __init__(self, medium: Medium) -> None:
        self._medium, self.open_ones = medium, set[object]()
        self.name, self.describe, self.close = medium.name, medium.describe, medium.close

    async def open(self, gates: Any, limits: Any, snapshot: bytes | None = None) -> Any:
        sandbox: Any = await self._medium.open(gates, limits, snapshot)
        self.open_ones.add(sandbox)
        close = sandbox.close

        async def closing() -> None:
            self.open_ones.discard(sandbox)
            await close()

        sandbox.close = closing
        return sandbox


async def test_when_the_medium_changes_between_two_prompts_the_old_sandbox_is_let_go() -> None:
    mediums = {medium.name: Counted(medium) for medium in (JavaScript(), Python())}
    bench, asked, go_on = Bench(), asyncio.Event(), asyncio.Event()

    class Waits:
        async def invoke(self, request: Any, on_text: Any = None) -> CrystalResponse:
            asked.set()
            await go_on.wait()
            return runs("done('one')")

    first = replace(made([], mediums["javascript"]), crystal=Waits())
    async with bench.serve(first.crystal, cantrip=first, medium=mediums.__getitem__) as service:
        one = await bench.ask("one")
        await asked.wait()

        def looks(request: Any) -> CrystalResponse:
            assert not mediums["javascript"].open_ones
            return runs("done('two')")

        service.bind("s", made([looks], mediums["python"]))
        two = await bench.ask("two")
        go_on.set()
        assert [(await bench.response(each)).text for each in (one, two)] == ["one", "two"]
    for medium in mediums.values():
        await medium.close()


async def test_a_service_that_ends_leaves_no_sandbox_open(medium: Medium) -> None:
    bench, counted, hung = Bench(), Counted(medium), asyncio.Event()

    async def hang() -> None:
        """Never gives anything."""
        hung.set()
        await asyncio.Event().wait()

    class Acts:
        async def invoke(self, request: Any, on_text: Any = None) -> CrystalResponse:
            return runs("hang()")

    crystal = Acts()
    cantrip = Cantrip(crystal, Call(), circle(["done", hang], [Ward(max_turns=3)], medium.name))
    async with bench.serve(crystal, cantrip=cantrip, medium=only(counted)):
        await bench.ask("hang")
        await hung.wait()
        assert counted.open_ones
    assert not counted.open_ones
