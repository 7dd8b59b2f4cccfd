"""Ten megabytes where a few words are usual: recorded whole, by reference, and shown in part where it would do harm."""

from __future__ import annotations

from typing import Any

import pytest

from branches.agents.call import Call
from branches.agents.cantrip import Cantrip
from branches.agents.circle import circle
from branches.agents.context import SHOWN_CHARS
from branches.agents.crystal import CrystalResponse
from branches.agents.loom import Loom, export_loom, import_loom, read_loom
from branches.agents.wards import Ward
from coven.testing import ScriptedCrystal, calls, finishes, says
from coven.testing.scripted import fails, runs
from journals import Store
from leaves.mediums.javascript import JavaScript
from leaves.mediums.python import Python
from tests.branches.agents.bench import Bench

SIZE = 10_000_000
INLINE = 1024 * 1024


def huge(size: int = SIZE) -> str:
    """Give so many characters."""
    return "<" + "x" * (size - 2) + ">"


def measure(text: str) -> int:
    """Tell how long a text is."""
    return len(text)


async def lived(store: Store, *answers: CrystalResponse, medium: Any = None) -> tuple[Bench, ScriptedCrystal, Loom]:
    """An episode with these answers, and a second one after a restart."""
    bench, crystal = Bench(store), ScriptedCrystal([*answers, says("still here")])
    made = Cantrip(
        crystal, Call(), circle(["done", huge, measure], [Ward(max_turns=5)], medium.name if medium else "tools")
    )
    more: dict[str, Any] = {} if medium is None else {"medium": {medium.name: medium}.__getitem__}
    async with bench.serve(crystal, cantrip=made, **more):
        await bench.talk("go")
    async with bench.serve(crystal, cantrip=made, **more):
        assert (await bench.talk("still there?")).text == "still here"
    return bench, crystal, await read_loom(await bench.open())


async def largest_message(bench: Bench) -> int:
    """The size of the largest message in the journal's stream."""
    journal = await bench.open()
    return max([len(stored.body) async for group in journal.log.read(None, 0, None) for stored in group])


async def test_a_gates_result_is_recorded_whole_and_shown_in_part(store: Store) -> None:
    bench, crystal, loom = await lived(store, calls(("huge", {})), finishes("ok"))
    assert loom.turns[0].gate_calls[0].result == huge()
    assert import_loom(export_loom(loom)) == loom
    assert await largest_message(bench) < INLINE
    first, again = crystal.requests[1].messages[-1], crystal.requests[2].messages[2]
    assert first == again, "after a restart the crystal is shown the same"
    shown = first.content or ""
    assert (shown[0], shown[-1], len(shown) // 1000) == ("<", ">", SHOWN_CHARS // 1000)
    assert f"({SIZE - SHOWN_CHARS} characters left out)" in shown


async def test_an_intent_is_recorded_whole_and_shown_in_part(store: Store) -> None:
    bench, crystal = Bench(store), ScriptedCrystal([fails(400, "it is still too long"), says("ok")])
    async with bench.serve(crystal):
        assert (await bench.talk(huge())).ending == "failed"
        assert (await bench.talk("go on")).text == "ok"
    first, again = (request.messages for request in crystal.requests)
    assert list(again)[:1] == list(first)
    assert f"({SIZE - SHOWN_CHARS} characters left out)" in (first[0].content or "")
    assert (await read_loom(await bench.open())).turns[0].intent == huge()
    assert await largest_message(bench) < INLINE


async def test_a_result_that_is_larger_than_may_be_is_refused(store: Store) -> None:
    _, crystal, loom = await lived(store, calls(("huge", {"size": 20_000_000})), finishes("ok"))
    told = crystal.requests[1].messages[-1].content
    assert told == "Error: bad_result: the gate gave 20000002 bytes, more than the 16777216 allowed"
    assert loom.turns[0].gate_calls[0].is_error


async def test_what_a_crystal_says_is_recorded_whole(store: Store) -> None:
    bench, crystal, loom = await lived(
        store, calls(("measure", {"text": huge()}), text=huge()), calls(("done", {"answer": huge()}))
    )
    assert loom.turns[0].utterance == huge()
    assert loom.turns[0].gate_calls[0].args == {"text": huge()}
    assert loom.turns[1].result == huge()
    assert crystal.requests[1].messages[-1].content == str(SIZE)
    assert await largest_message(bench) < INLINE


async def test_an_answer_in_text_is_recorded_whole(store: Store) -> None:
    bench, _, loom = await lived(store, says(huge()))
    assert loom.turns[0].result == huge()
    assert await largest_message(bench) < INLINE


@pytest.mark.parametrize("engine", [JavaScript, Python])
async def test_in_code_a_result_is_a_variable_of_which_a_bounded_part_is_shown(store: Store, engine: Any) -> None:
    medium = engine()
    text, code = "var x = huge({size: %d}); x", "x = huge(size=%d)\nx"
    gets = (text if medium.name == "javascript" else code) % SIZE
    counts = "done(x.length)" if medium.name == "javascript" else "done(len(x))"
    bench, crystal, loom = await lived(store, runs(gets), runs("done(x)"), runs(counts), medium=medium)
    shown, refused = (crystal.requests[n].messages[-1].content or "" for n in (1, 2))
    assert len(shown) == 20_000
    assert "characters of arguments; 8000000 fit" in refused
    assert loom.turns[0].gate_calls[0].result == huge()
    assert loom.turns[2].result == SIZE
    assert await largest_message(bench) < INLINE
    await medium.close()


@pytest.mark.parametrize("engine", [JavaScript, Python])
async def test_code_that_is_too_long_is_refused(store: Store, engine: Any) -> None:
    medium = engine()
    comment = "//" if medium.name == "javascript" else "#"
    bench, crystal, loom = await lived(store, runs(comment + huge()), runs("done(1)"), medium=medium)
    assert "1000000 fit" in (crystal.requests[1].messages[-1].content or "")
    assert len(loom.turns[0].utterance) == SIZE + len(comment)
    assert await largest_message(bench) < INLINE
    await medium.close()
