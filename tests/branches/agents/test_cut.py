"""An entity that was cut off goes on with what its journal tells, whether it was restarted since or not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from branches.agents.call import Call
from branches.agents.cantrip import Cantrip
from branches.agents.circle import circle
from branches.agents.crystal import CrystalError, CrystalRequest, CrystalResponse, Message, Usage
from branches.agents.entries import AgentCancel, AgentToolResult
from branches.agents.medium import Medium
from branches.agents.retrying import Retrying
from branches.agents.wards import Ward
from coven.testing import calls, finishes, says
from coven.testing.scripted import runs
from journals import Entry, Record
from leaves.mediums.javascript import JavaScript
from leaves.mediums.python import Python
from tests.branches.agents.bench import ECHO, SILENT, Bench
from tests.branches.held import held

Play = Callable[[CrystalRequest], CrystalResponse | None]
"""What a crystal says to this request; None hangs."""
MEDIUMS = {"javascript": JavaScript, "python": Python}


class Actor:
    """A stateless crystal that can hang, and tells when it does."""

    def __init__(self, play: Play, hangs: asyncio.Event) -> None:
        self._play, self._hangs = play, hangs
        self.requests: list[CrystalRequest] = []

    async def invoke(self, request: CrystalRequest, on_text: object = None) -> CrystalResponse:
        self.requests.append(request)
        said = self._play(request)
        if said is None:
            self._hangs.set()
            await asyncio.Event().wait()
            raise AssertionError
        return said


class Scene:
    """One entity that is cut off while it works on `first`, and is asked `next` then."""

    def __init__(self, root: Play, medium: Medium | None = None, child: Play | None = None, **call: Any) -> None:
        self._hangs = asyncio.Event()
        self._root, self._child, self._medium, self._call = root, child, medium, call
        self.bench = Bench()

    def cantrip(self, seconds: float = 100) -> Cantrip:
        hangs = self._hangs

        async def hang() -> str:
            """Never gives anything."""
            hangs.set()
            await asyncio.Event().wait()
            return ""

        wards = [Ward(max_turns=6), Ward(max_seconds=seconds), Ward(max_tokens=100_000)]
        medium = "tools" if self._medium is None else self._medium.name
        made = circle(["done", ECHO, SILENT, hang, "call_agent"], wards, medium)
        children = () if self._child is None else (Actor(self._child, hangs),)
        retry = Retrying(max_retries=0)
        return Cantrip(Actor(self._root, hangs), Call(**self._call), made, child_crystals=children, retry=retry)

    async def perform(self, how: str, *, restart: bool) -> tuple[list[Message], str]:
        """The request that `next` comes to and its answer, after `first` was ended like this."""
        cantrip = self.cantrip()
        async with self.serve(cantrip):
            first = await self.bench.ask("first")
            await self.cut(how)
            assert (await self.bench.response(first)).ending != "terminated"
            if not restart:
                answer = (await self.bench.talk("next")).text
                return list(cantrip.crystal.requests[-1].messages), answer  # type: ignore[attr-defined]
        again = self.cantrip()
        async with self.serve(again):
            answer = (await self.bench.talk("next")).text
            return list(again.crystal.requests[-1].messages), answer  # type: ignore[attr-defined]

    def serve(self, cantrip: Cantrip) -> Any:
        medium = self._medium
        more = {} if medium is None else {"medium": lambda _: medium}
        return self.bench.serve(cantrip.crystal, cantrip=cantrip, **more)

    async def cut(self, how: str) -> None:
        if how == "failed":
            return
        await self._hangs.wait()
        if how == "cancel":
            await (await self.bench.open()).append(AgentCancel(), session="s")
        else:
            self.bench.clock.advance(100)

    async def answer_late(self) -> None:
        """The gate call that was cut off has its answer after all."""
        (call,) = await self.bench.records("AgentToolCall")
        late = AgentToolResult(correlation_id=call.correlation_id or "", result="late")
        await (await self.bench.open()).append(late, session="s", cause=call)


async def both(make: Callable[[], Scene], how: str) -> tuple[list[Message], str]:
    """What comes of it, the same with and without a restart."""
    without = await make().perform(how, restart=False)
    assert without == await make().perform(how, restart=True)
    return without


def spoken(request: CrystalRequest) -> int:
    return sum(message.role == "assistant" for message in request.messages)


def is_next(request: CrystalRequest) -> bool:
    return any(message.content == "next" for message in request.messages)


def play(*answers: CrystalResponse | None, then: CrystalResponse | None = None) -> Play:
    """These answers to `first`, and `then` to `next`."""

    def told(request: CrystalRequest) -> CrystalResponse | None:
        return then or finishes("ok") if is_next(request) else answers[spoken(request)]

    return told


CUTS: dict[str, Callable[[], Scene]] = {
    "its first request": lambda: Scene(play(None)),
    "a later request": lambda: Scene(play(calls(("echo", {"text": "x"})), None)),
    "a request behind its own words": lambda: Scene(play(says("Hm."), None), require_done_tool=True),
    "a gate of its own": lambda: Scene(play(calls(("echo", {"text": "x"}), ("hang", {}), ("echo", {})))),
    "a child": lambda: Scene(
        play(calls(("echo", {"text": "x"}), ("call_agent", {"intent": "go"}), ("echo", {}))),
        child=play(calls(("echo", {"text": "x"})), None),
    ),
    "a child's gate": lambda: Scene(
        play(calls(("call_agent", {"intent": "go"}))), child=play(calls(("hang", {}))), require_done_tool=True
    ),
}


@pytest.mark.parametrize("how", ["cancel", "max_seconds"])
@pytest.mark.parametrize("at", CUTS)
async def test_the_next_intent_is_shown_the_same_with_and_without_a_restart(at: str, how: str) -> None:
    shown, answer = await both(CUTS[at], how)
    assert answer == "ok"
    assert [message.content for message in shown if message.role == "user"][-1] == "next"


async def test_an_answer_that_comes_too_late_changes_nothing() -> None:
    def make() -> Scene:
        return Scene(play(calls(("silent", {}), ("hang", {}))))

    async def cut(restart: bool) -> tuple[list[Message], str]:
        scene = make()
        cantrip = scene.cantrip()
        async with scene.serve(cantrip):
            first = await scene.bench.ask("first")
            await scene.bench.wait("AgentToolCall")
            await (await scene.bench.open()).append(AgentCancel(), session="s")
            await scene.bench.response(first)
            await scene.answer_late()
            if not restart:
                answer = (await scene.bench.talk("next")).text
                return list(cantrip.crystal.requests[-1].messages), answer  # type: ignore[attr-defined]
        again = scene.cantrip()
        async with scene.serve(again):
            answer = (await scene.bench.talk("next")).text
            return list(again.crystal.requests[-1].messages), answer  # type: ignore[attr-defined]

    shown = await cut(restart=False)
    assert shown == await cut(restart=True)
    assert all(message.content != "late" for message in shown[0])


@pytest.mark.parametrize("code", ["crystal_error", "max_tokens"])
async def test_so_it_is_behind_a_request_that_failed_or_could_not_be_paid(code: str) -> None:
    def root(request: CrystalRequest) -> CrystalResponse:
        if is_next(request):
            return finishes("ok")
        if spoken(request):
            raise CrystalError("refused", "no")
        return says("Hm.", usage=Usage(prompt=10, completion=10 if code == "crystal_error" else 99_000))

    _, answer = await both(lambda: Scene(root, require_done_tool=True), "failed")
    assert answer == "ok"


@pytest.fixture(params=["javascript", "python"])
async def medium(request: pytest.FixtureRequest) -> AsyncIterator[Medium]:
    made = MEDIUMS[request.param]()
    yield made
    await made.close()


def let(medium: Medium, assignment: str) -> str:
    return f"var {assignment}" if medium.name == "javascript" else assignment


def in_code(medium: Medium, *codes: str | None) -> Sequence[CrystalResponse | None]:
    return [None if code is None else runs(code) for code in codes]


@pytest.mark.parametrize("how", ["cancel", "max_seconds"])
@pytest.mark.parametrize("at", ["its request", "its code", "a child", "a child's code"])
async def test_variables_are_the_same_with_and_without_a_restart(medium: Medium, at: str, how: str) -> None:
    begin = let(medium, "x = echo('kept')")
    tail = {
        "its request": None,
        "its code": "x = 'lost'; hang()" if medium.name == "javascript" else "x = 'lost'\nhang()",
        "a child": "x = call_agent('go')",
        "a child's code": "x = call_agent('go')",
    }[at]
    child = play(*in_code(medium, None if at == "a child" else "hang()"))

    def make() -> Scene:
        return Scene(play(*in_code(medium, begin, tail), then=runs("done(x)")), medium, child)

    shown, answer = await both(make, how)
    assert answer == "kept"
    assert "kept" not in str(shown[-1].content)


@pytest.mark.parametrize("how", ["cancel", "max_seconds"])
@pytest.mark.parametrize("ends", ["by done", "by text"])
async def test_cut_off_at_every_moment_it_ends_once_and_the_next_intent_is_shown_the_same(ends: str, how: str) -> None:
    begins = calls(("echo", {"text": "1"}), ("call_agent", {"intent": "go"}), ("nope", {}))
    by_done = ends == "by done"
    script = [begins, says("Hm."), finishes("over")] if by_done else [begins, says("over")]
    inner = [calls(("echo", {"text": "2"})), finishes("here") if by_done else says("here")]

    async def shown(scene: Scene, asked: Record[Entry]) -> list[Message]:
        """The request that `next` comes to where it was asked already."""
        cantrip = scene.cantrip()
        async with scene.serve(cantrip):
            await scene.bench.response(asked)
        return list(cantrip.crystal.requests[-1].messages)  # type: ignore[attr-defined]

    moments, endings, over = 0, set[str](), False
    while not over:
        scene, restarted = (Scene(play(*script), child=play(*inner), require_done_tool=by_done) for _ in range(2))
        cantrip = scene.cantrip()
        async with scene.serve(cantrip):
            first = await scene.bench.ask("first")
            if how == "max_seconds":
                await scene.bench.wait("CrystalCalled")
            for _ in range(moments):
                await asyncio.sleep(0)
            over = bool(await scene.bench.records("AgentResponse"))
            if how == "cancel":
                await (await scene.bench.open()).append(AgentCancel(prompt=first.id), session="s")
            else:
                scene.bench.clock.advance(100)
            endings.add((await scene.bench.response(first)).ending)
            next_ = await scene.bench.ask("next")
            await scene.bench.response(next_)
        for record in await scene.bench.records():
            if record.position <= next_.position:
                await restarted.bench.copy(record)
        live = list(cantrip.crystal.requests[-1].messages)  # type: ignore[attr-defined]
        assert live == await shown(restarted, next_), f"after {moments} moments"
        assert len(await scene.bench.records("AgentResponse")) == 2
        returned = [record.correlation_id for record in await scene.bench.records("EntityReturned")]
        assert len(returned) == len(set(returned))
        moments += 1
    assert {"cancel": "cancelled", "max_seconds": "truncated"}[how] in endings
    assert moments > 15


async def test_a_prompt_whose_episode_is_about_to_begin_can_be_cancelled_too() -> None:
    bench = Bench()
    scene = Scene(play(finishes("one"), finishes("two")))
    scene.bench = bench
    journal, log = held(await bench.open(), lambda message: message.headers["Coven-Kind"] == "EntityCast")
    crystal = scene.cantrip()
    async with bench.serve(crystal.crystal, cantrip=crystal, journal=journal):
        first = await bench.ask("first")
        await log.arrived.wait()
        cancelled = await (await bench.open()).append(AgentCancel(prompt=first.id), session="s")
        second = await bench.ask("next")
        await journal.wait_for(lambda record: record.position == second.position, timeout=60)
        assert cancelled.created
        log.released.set()
        assert (await bench.response(first)).ending == "cancelled"
        assert (await bench.response(second)).text == "ok"
    assert await bench.records("CrystalCalled")
