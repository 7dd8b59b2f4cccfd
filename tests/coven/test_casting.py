"""Casting from Python: the same loop, over whatever store it is given."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import coven
from branches.agents.entries import AgentThought
from branches.agents.events import TextEvent
from branches.agents.forking import NoSuchTurn
from branches.agents.retrying import Retrying
from coven import Call, Cantrip, Ward, cast, circle, gate, invoke
from coven.casting import InvalidCast
from coven.testing import ScriptedCrystal, calls, finishes, says
from journals import Draft, Store, random_id
from leaves.spells.fs import Filesystem, FsOptions


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_a_cast_is_one_episode_with_the_gates_of_its_own_process(store: Store) -> None:
    crystal = ScriptedCrystal([calls(("add", {"a": 1, "b": 2})), finishes("three")])
    ended = await cast(Cantrip(crystal, Call(), circle(["done", add], [Ward(max_turns=5)])), "go", store=store)
    assert (ended.answer, ended.ending, ended.turns) == ("three", "terminated", 2)
    assert crystal.requests[-1].messages[-1].content == "3"


async def test_an_intent_is_required() -> None:
    cantrip = Cantrip(ScriptedCrystal([]), Call(), circle(["done"], [Ward(max_turns=1)]))
    for missing in (None, "", "  "):
        with pytest.raises(InvalidCast, match="intent is required"):
            await cast(cantrip, missing)  # type: ignore[arg-type]


async def test_an_entity_that_lasts_remembers_what_was_said() -> None:
    crystal = ScriptedCrystal([says("Ada, hello."), says("You are Ada.")])
    async with invoke(Cantrip(crystal, Call(), circle(["done"], [Ward(max_turns=3)]))) as entity:
        await entity.ask("I am Ada.")
        assert (await entity.ask("Who am I?")).answer == "You are Ada."
    assert [message.content for message in crystal.requests[-1].messages] == ["I am Ada.", "Ada, hello.", "Who am I?"]


async def test_spells_are_cast_through_the_covenant(store: Store, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("milk")
    crystal = ScriptedCrystal([calls(("fs.read_text", {"path": "notes.md"})), finishes("milk")])
    cantrip = Cantrip(crystal, Call(), circle(["done", "fs.read_text"], [Ward(max_turns=3)]))
    ended = await cast(cantrip, "read", store=store, substrates={"fs": Filesystem(FsOptions(root=str(tmp_path)))})
    assert ended.answer == "milk"
    assert "milk" in (crystal.requests[-1].messages[-1].content or "")


async def test_an_episode_can_be_cancelled() -> None:
    asked = asyncio.Event()

    async def never(request: object) -> coven.CrystalResponse:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with invoke(Cantrip(ScriptedCrystal([never, says("again")]), Call(), _bare())) as entity:
        prompt = await entity.send("wait")
        await asked.wait()
        await entity.cancel(prompt)
        ended = await entity.ended(prompt)
        assert (ended.ending, ended.answer) == ("cancelled", None)
        assert (await entity.ask("go on")).answer == "again"


async def test_dependencies_are_bound_when_the_circle_is_made() -> None:
    def read(path: str, *, root: Path) -> str:
        """Read a file."""
        return f"{root}/{path}"

    bound = gate(read, root=Path("/data"))
    assert list(bound.definition.parameters["properties"]) == ["path"]
    crystal = ScriptedCrystal([calls(("read", {"path": "a"})), finishes("ok")])
    await cast(Cantrip(crystal, Call(), circle(["done", bound], [Ward(max_turns=3)])), "go")
    assert crystal.requests[-1].messages[-1].content == "/data/a"


async def test_whatever_a_gate_raises_is_an_observation() -> None:
    def explode() -> None:
        """Explode."""
        raise ZeroDivisionError("boom")

    def give() -> object:
        """Give what JSON cannot hold."""
        return object()

    crystal = ScriptedCrystal([calls(("explode", {}), ("give", {}), ("explode", {"x": 1})), finishes("ok")])
    await cast(Cantrip(crystal, Call(), circle(["done", explode, give], [Ward(max_turns=3)])), "go")
    seen = [message.content or "" for message in crystal.requests[-1].messages if message.role == "tool"]
    assert seen[0] == "Error: failed: boom"
    assert seen[1].startswith("Error: bad_result")
    assert seen[2].startswith("Error: bad_arguments")


async def test_a_gate_that_cancels_itself_or_cannot_even_be_told_about_is_an_observation() -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    async def wait() -> None:
        """Wait for what was cancelled."""
        raise asyncio.CancelledError

    async def cancel() -> None:
        """Cancel oneself."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    async def leave() -> None:
        """Leave, in the event loop."""
        raise SystemExit(3)

    async def fail() -> None:
        """Fail unspeakably."""
        raise Unspeakable

    gates = [wait, cancel, leave, fail]
    crystal = ScriptedCrystal([calls(*((gate.__name__, {}) for gate in gates)), finishes("ok")])
    ended = await cast(Cantrip(crystal, Call(), circle(["done", *gates], [Ward(max_turns=3)])), "go")
    assert ended.answer == "ok"
    seen = [message.content or "" for message in crystal.requests[-1].messages if message.role == "tool"]
    cancelled = "Error: failed: it was cancelled, by itself or by what it waited for"
    unspeakable = "Error: failed: Unspeakable, which raises RuntimeError when it is shown"
    assert seen == [cancelled, cancelled, "Error: failed: SystemExit: 3", unspeakable]


async def test_a_crystal_whose_own_work_is_cancelled_is_asked_again_like_one_that_was_not_reached() -> None:
    async def cancelled(request: object) -> Any:
        raise asyncio.CancelledError

    made = circle(["done"], [Ward(max_turns=3)])
    patient = Cantrip(ScriptedCrystal([cancelled, finishes("ok")]), Call(), made, retry=Retrying(base_delay_s=0.001))
    assert (await cast(patient, "go")).answer == "ok"
    hasty = Cantrip(ScriptedCrystal([cancelled]), Call(), made, retry=Retrying(max_retries=0))
    ended = await cast(hasty, "go")
    assert (ended.ending, "was cancelled" in ended.text) == ("failed", True)


def _bare() -> coven.Circle:
    return circle(["done"], [Ward(max_turns=3)])


async def test_a_fork_goes_on_from_a_turn_and_leaves_the_original_alone(store: Store) -> None:
    def echo(text: str) -> str:
        """Say it again."""
        return text

    script = [calls(("echo", {"text": "A"})), calls(("echo", {"text": "B"})), finishes("original")]
    cantrip = Cantrip(ScriptedCrystal(script), Call(), circle(["done", echo], [Ward(max_turns=5)]))
    other = ScriptedCrystal([finishes("forked")])
    async with invoke(cantrip, store=store) as entity:
        assert (await entity.ask("original intent")).answer == "original"
        before = [record async for record in entity.journal.read(session=entity.session)]
        forked = await entity.fork(0, cantrip=Cantrip(other, Call(), cantrip.circle))
        assert (await forked.ask("forked intent")).answer == "forked"
        assert [record async for record in entity.journal.read(session=entity.session)] == before
    shown = [message.content for message in other.requests[0].messages]
    assert shown == ["original intent", None, "A", "forked intent"]


async def test_only_a_turn_that_has_ended_can_be_forked_from() -> None:
    async with invoke(Cantrip(ScriptedCrystal([finishes("ok")]), Call(), _bare())) as entity:
        await entity.ask("go")
        for turn in (1, -2, "nothing"):
            with pytest.raises(NoSuchTurn, match="cannot be forked"):
                await entity.fork(turn)
        assert (await entity.fork(-1)).session != entity.session


async def test_what_happens_is_told_while_it_happens(store: Store) -> None:
    crystal = ScriptedCrystal([calls(("add", {"a": 1, "b": 2}), text="I add."), says("One.\nTwo.\n")])
    async with invoke(
        Cantrip(crystal, Call(), circle(["done", add], [Ward(max_turns=5)])), store=store, stream=True
    ) as entity:
        told = [event async for event in entity.events("go")]
    kinds = [type(event).__name__.removesuffix("Event") for event in told]
    assert (kinds[0], kinds[-1]) == ("StepStart", "FinalResponse")
    assert [kind for kind in kinds if kind.startswith("Tool")] == ["ToolCall", "ToolResult"]
    assert "".join(event.text for event in told if isinstance(event, TextEvent)) == "I add.One.\nTwo.\n"


async def test_a_cast_has_its_loom() -> None:
    crystal = ScriptedCrystal([calls(("add", {"a": 1, "b": 2})), finishes("3")])
    ended = await cast(Cantrip(crystal, Call(), circle(["done", add], [Ward(max_turns=5)])), "go")
    assert ended.loom is not None
    assert [turn.sequence for turn in ended.loom.turns] == [1, 2]
    assert (ended.loom.turns[-1].terminated, ended.loom.turns[-1].parent_id) == (True, ended.loom.turns[0].id)


async def test_independent_calls_are_made_at_once_and_seen_in_their_order() -> None:
    met, order = asyncio.Barrier(2), list[str]()

    async def meet(name: str) -> str:
        """Come back when the other one is there too."""
        await met.wait()
        order.append(name)
        return name

    crystal = ScriptedCrystal([calls(("meet", {"name": "a"}), ("meet", {"name": "b"})), finishes("ok")])
    together = circle(["done", meet], [Ward(max_turns=3)], independent=True)
    assert (await cast(Cantrip(crystal, Call(), together), "go")).answer == "ok"
    assert [message.content for message in crystal.requests[-1].messages[-2:]] == ["a", "b"]


async def test_how_an_old_episode_ended_is_found_behind_a_long_journal(store: Store) -> None:
    crystal = ScriptedCrystal([says("one"), says("two")])
    async with invoke(Cantrip(crystal, Call(), _bare()), store=store, session="old") as entity:
        await entity.ask("go", id="first")
        drafts = [
            Draft(entry=AgentThought(sender="x", text=f"{number}"), session="other", id=random_id())
            for number in range(1_000)
        ]
        await entity.journal.append_all(drafts)
        await entity.journal.append_all(
            [Draft(entry=AgentThought(sender="x", text="last"), session="other", id=random_id())]
        )
        assert (await entity.ask("go", id="first")).answer == "one"
        assert (await entity.ask("go on")).answer == "two"


async def test_gates_that_hang_hold_nobody_else_up() -> None:
    over = threading.Event()

    def hang() -> None:
        """Hang."""
        over.wait()

    crystal = ScriptedCrystal([calls(*[("hang", {}) for _ in range(40)], ("add", {"a": 1, "b": 2})), finishes("ok")])
    made = circle(["done", hang, add], [Ward(max_turns=3)], independent=True)
    ended = await cast(Cantrip(crystal, Call(), made), "go", tool_timeout_s=3)
    over.set()
    seen = [message.content or "" for message in crystal.requests[-1].messages if message.role == "tool"]
    assert (ended.answer, seen[-1]) == ("ok", "3")
    assert all("timeout" in text for text in seen[:-1])


async def test_a_gate_that_wants_to_end_the_process_ends_nothing() -> None:
    def leave() -> None:
        """Leave."""
        raise SystemExit(3)

    def stop() -> None:
        """Stop."""
        raise StopIteration

    crystal = ScriptedCrystal([calls(("leave", {}), ("stop", {})), finishes("ok")])
    await cast(Cantrip(crystal, Call(), circle(["done", leave, stop], [Ward(max_turns=3)])), "go")
    seen = [message.content or "" for message in crystal.requests[-1].messages if message.role == "tool"]
    assert "SystemExit" in seen[0]
    assert "StopIteration" in seen[1]
