"""A provider without stop sequences: its text ends before the first of them, whole and in pieces."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branches.agents.crystal import CrystalError, CrystalRequest, Message, Sampling, Usage
from branches.agents.gates import DONE
from coven.testing.providers import ProviderServer, Reply
from leaves.crystals._names import Names
from leaves.crystals._responses import Assembling, read
from leaves.crystals._stopping import Stopping, cut
from tests.leaves.crystals.providers import OPENAI

# Few letters, so that stop sequences are found, begin, overlap and are not finished.
LETTERS = st.text("ab\u2615", max_size=24)
STOPS = st.lists(st.text("ab\u2615", max_size=4), max_size=4)


def earliest(text: str, stops: list[str]) -> str:
    """What is meant, as plainly as it can be said."""
    begins = [at for at in range(len(text)) if any(stop and text[at:].startswith(stop) for stop in stops)]
    return text[: begins[0]] if begins else text


def pieces_of(text: str, places: list[int]) -> list[str]:
    ends = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[one:two] for one, two in pairwise(ends)]


PLACES = st.lists(st.integers(0, 30), max_size=12)


@given(LETTERS, STOPS, PLACES)
def test_any_text_in_any_pieces_is_told_up_to_the_stop_that_begins_first(
    text: str, stops: list[str], places: list[int]
):
    stopping = Stopping(stops)
    told, so_far = "", ""
    for piece in pieces_of(text, places):
        told += stopping.take(piece)
        so_far += piece
        assert earliest(so_far, stops).startswith(told), "nothing is told that would have to be taken back"
    assert told + stopping.end() == cut(text, stops) == earliest(text, stops)
    assert stopping.stopped is (earliest(text, stops) != text)


@given(st.text(max_size=40), st.lists(st.text(min_size=1, max_size=3), max_size=3), PLACES)
def test_of_any_letters(text: str, stops: list[str], places: list[int]):
    stopping = Stopping(stops)
    told = "".join(stopping.take(piece) for piece in pieces_of(text, places)) + stopping.end()
    assert told == cut(text, stops) == earliest(text, stops)


@given(LETTERS, STOPS, PLACES)
def test_no_more_is_held_back_than_could_begin_a_stop(text: str, stops: list[str], places: list[int]):
    stopping, told = Stopping(stops), 0
    for piece in pieces_of(text, places):
        told += len(stopping.take(piece))
    if not stopping.stopped:
        held = text[told:]
        assert held == "" or any(stop.startswith(held[at:]) for stop in stops for at in range(len(held)))
        assert len(held) <= max(map(len, stops), default=0)


ITEMS = st.lists(st.one_of(st.just(None), st.just("call"), LETTERS.map(lambda text: f"a{text}")), max_size=5)


@given(ITEMS, STOPS, PLACES)
def test_what_streams_is_what_the_whole_answer_says(items: list[str | None], stops: list[str], places: list[int]):
    """Reasoning (None), calls and messages, in any order; a message begins a text of its own."""
    output: list[dict[str, Any]] = []
    events: list[Any] = []
    for index, item in enumerate(items):
        if item is None:
            output.append({"type": "reasoning", "id": f"r{index}", "summary": [{"text": "Hm."}]})
            delta = SimpleNamespace(
                type="response.reasoning_summary_text.delta", output_index=index, summary_index=0, delta="Hm."
            )
            events.append(delta)
        elif item == "call":
            output.append({"type": "function_call", "call_id": f"c{index}", "name": "done", "arguments": "{}"})
        else:
            output.append({"type": "message", "content": [{"type": "output_text", "text": item}]})
            events += (
                SimpleNamespace(type="response.output_text.delta", output_index=index, delta=piece)
                for piece in pieces_of(item, places)
            )
        events.append(SimpleNamespace(type="response.output_item.done", output_index=index))
    whole = SimpleNamespace(model_dump=lambda **_: {"output": output})
    events.append(SimpleNamespace(type="response.completed", response=whole))
    assembling = Assembling(stops)
    heard = [assembling.take(event) for event in events]
    assert assembling.response is not None
    try:
        response = read(assembling.response, Names(()), "openai/m", stops)
    except CrystalError:
        assert "".join(piece.text for piece in heard) == ""
        return
    assert "".join(piece.text for piece in heard) == (response.content or "")
    assert "".join(piece.thought for piece in heard) == (response.thinking or "")


ASKED = (Message("user", "Count."),)


async def test_nothing_behind_a_stop_is_seen_and_all_of_it_is_counted(server: ProviderServer, streamed: bool):
    """The end of the answer is read for what it cost. Calls behind the stop would not have been written."""
    server.replies = [
        Reply(
            thinking="Hm.", text="one, two, END three", calls=(("done", "{}"),), prompt_tokens=7, completion_tokens=9
        ),
        Reply(text="EN"),
    ]
    crystal, told = OPENAI.make(server.url), list[str]()
    request = CrystalRequest(ASKED, (DONE,), sampling=Sampling(stop=("END",)))
    response = await crystal.invoke(request, told.append if streamed else None)
    assert (response.content, response.tool_calls) == ("one, two, ", ())
    assert response.usage == Usage(prompt=7, completion=9)
    assert "".join(told) == ("one, two, " if streamed else "")
    said = Message("assistant", response.content, model=response.model, opaque=response.opaque)
    again = CrystalRequest((*ASKED, said, Message("user", "Go on.")), (DONE,), sampling=request.sampling)
    assert (await crystal.invoke(again, told.append if streamed else None)).content == "EN"
    assert server.refused == []
    await crystal.close()


async def test_an_answer_that_is_a_stop_from_the_start_says_so(server: ProviderServer, streamed: bool):
    server.replies = [Reply(thinking="Hm.", text="END of it")]
    crystal, told = OPENAI.make(server.url), list[str]()
    request = CrystalRequest(ASKED, sampling=Sampling(stop=("END",)))
    with pytest.raises(CrystalError, match="stop sequence") as caught:
        await crystal.invoke(request, told.append if streamed else None)
    assert (caught.value.code, told) == ("invalid_response", [])
    await crystal.close()


def test_reasoning_that_led_to_nothing_that_is_left_does_not_go_back():
    reasoning = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "gAAAA"}
    message = {"type": "message", "content": [{"type": "output_text", "text": "One."}]}
    assert read({"output": [message, reasoning]}, Names(()), "openai/m").opaque is None
    assert read({"output": [reasoning, message]}, Names(()), "openai/m").opaque is not None
