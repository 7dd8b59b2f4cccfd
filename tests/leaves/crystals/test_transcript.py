"""Whatever was said, a transcript is one that every provider takes."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from branches.agents.crystal import Message, ToolCall
from leaves.crystals._names import Names
from leaves.crystals._transcript import BEGIN, GO_ON, NO_RESULT, transcript

TEXTS = st.one_of(st.none(), st.sampled_from(["", " ", "\n", "hello", "more"]))
IDS = st.sampled_from(["a", "a_2", "b", "call:1", "call/1", "", "x" * 80, "\u2615"])
CALLS = st.lists(
    st.builds(ToolCall, IDS, st.sampled_from(["fs.read_text", "done"])), max_size=3, unique_by=lambda call: call.id
).map(tuple)
MESSAGES = st.lists(
    st.one_of(
        st.builds(Message, st.just("system"), TEXTS),
        st.builds(Message, st.just("user"), TEXTS),
        st.builds(Message, st.just("assistant"), TEXTS, CALLS),
        st.builds(Message, st.just("tool"), TEXTS, st.just(()), IDS),
    ),
    max_size=12,
).map(tuple)


@given(MESSAGES)
def test_it_begins_and_ends_with_something_heard(messages: tuple[Message, ...]):
    said = transcript(messages)
    assert [exchange.said is None for exchange in said.exchanges] == [*[False] * (len(said.exchanges) - 1), True]
    for exchange in said.exchanges:
        assert exchange.heard.results or exchange.heard.texts
        assert all(text.strip() for text in exchange.heard.texts)
        if exchange.said is not None:
            assert exchange.said.tool_calls or (exchange.said.content and exchange.said.content.strip())


@given(MESSAGES)
def test_every_call_is_followed_by_its_result_and_nothing_else_is(messages: tuple[Message, ...]):
    said = transcript(messages)
    waiting: list[str] = []
    for exchange in said.exchanges:
        assert [result.id for result in exchange.heard.results] == waiting
        waiting = [call.id for call in exchange.said.tool_calls] if exchange.said else []


@given(MESSAGES)
def test_ids_are_unique_and_plain(messages: tuple[Message, ...]):
    said = transcript(messages)
    ids = [call.id for exchange in said.exchanges if exchange.said for call in exchange.said.tool_calls]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", id) for id in ids)


@given(MESSAGES, MESSAGES)
def test_what_is_said_later_does_not_change_what_was_said(one: tuple[Message, ...], two: tuple[Message, ...]):
    """So that caches, and signatures of all that stood before, hold."""
    spoken = Message("assistant", "so")
    before = transcript((*one, Message("user", "ask"), spoken, Message("user", "x"))).exchanges[:-1]
    after = transcript((*one, Message("user", "ask"), spoken, Message("user", "y"), *two)).exchanges
    assert after[: len(before)] == before


@given(MESSAGES)
def test_no_words_are_lost(messages: tuple[Message, ...]):
    said = transcript(messages)
    kept = [text for exchange in said.exchanges for text in exchange.heard.texts if text not in (BEGIN, GO_ON)]
    assert kept == [each.content for each in messages if each.role == "user" and each.content and each.content.strip()]


def test_results_stand_in_the_order_of_their_calls():
    calls = (ToolCall("1", "a"), ToolCall("2", "b"), ToolCall("3", "c"))
    results = (Message("tool", "two", tool_call_id="2"), Message("tool", "one", tool_call_id="1"))
    (first, last) = transcript((Message("user", "go"), Message("assistant", None, calls), *results)).exchanges
    assert first.heard.texts == ("go",)
    assert [result.content for result in last.heard.results] == ["one", "two", NO_RESULT]


@given(st.lists(st.text(min_size=1, max_size=70), unique=True))
def test_gates_have_names_of_their_own_on_the_wire_and_are_found_again(gates: list[str]):
    names = Names(gates)
    wires = [names.there(gate) for gate in gates]
    assert len(set(wires)) == len(wires)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", wire) for wire in wires)
    assert [names.back(wire) for wire in wires] == gates
