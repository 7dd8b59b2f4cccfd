"""Folding: when a view is folded, what stays of it, and what stands in the place of the rest."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from branches.agents.crystal import Message, ToolCall
from branches.agents.folding import (
    INTENT_CHARS,
    SUMMARY_CHARS,
    Folded,
    Folding,
    TurnMessages,
    estimate_tokens,
    fold,
    shown,
    token_trigger,
)

SYSTEM = (Message("system", "You are a test."),)


def turn(number: int, *, said: str | None = None, gave: str = "ok", gate: str = "echo", intent: str | None = None):
    call = ToolCall(f"call_{number}", gate, f'{{"text": "{number}"}}')
    answer = Message("tool", gave, tool_call_id=call.id, is_error=gave.startswith("Error"))
    return TurnMessages(
        number=number,
        messages=(Message("assistant", said, (call,)), answer),
        intents=(Message("user", intent),) if intent else (),
    )


def thread(count: int) -> list[TurnMessages]:
    return [turn(number, said=f"step {number}", intent="go" if number == 1 else None) for number in range(1, count + 1)]


def folded_by(turns, options: Folding, used: int = 0, **more):
    due = fold(turns, options, used_tokens=used, **more)
    assert due is not None
    return due


def test_nothing_is_folded_before_a_trigger() -> None:
    options = Folding(trigger_after_turns=5, keep_turns=2)
    assert fold(thread(5), options, used_tokens=10**9) is None
    assert fold(thread(500), Folding(), used_tokens=10**9) is None
    assert fold(thread(500), Folding(), used_tokens=800, context_limit=1000) is None


def test_more_turns_than_the_trigger_fold_all_but_the_newest() -> None:
    due = folded_by(thread(6), Folding(trigger_after_turns=5, keep_turns=2))
    assert (due.kept, due.folded.through, due.request) == (2, 4, ())
    assert due.folded.summary == "[turns 1-4 folded: gates called: echo (4)]"


def test_more_tokens_than_the_trigger_fold_too() -> None:
    assert token_trigger(Folding(), None) is None
    assert token_trigger(Folding(), 1000) == 800
    assert token_trigger(Folding(trigger_at_tokens=100), 1000) == 100
    due = folded_by(thread(20), Folding(keep_turns=3), 801, context_limit=1000)
    assert (due.kept, due.folded.through) == (3, 17)


def test_whichever_trigger_comes_first_counts() -> None:
    options = Folding(trigger_after_turns=10, trigger_at_tokens=1000, keep_turns=2)
    assert fold(thread(10), options, used_tokens=1000) is None
    assert folded_by(thread(11), options, 0).kept == 2
    assert folded_by(thread(3), options, 1001).kept == 2


def test_turns_too_large_to_keep_are_folded_down_to_the_newest() -> None:
    turns = [turn(number, gave="x" * 4000) for number in range(1, 6)]
    assert folded_by(turns, Folding(keep_turns=4), 5000, context_limit=6000).kept == 2
    assert folded_by(turns, Folding(keep_turns=4), 5000, context_limit=1000).kept == 1
    assert fold(turns[:1], Folding(), used_tokens=5000, context_limit=1000) is None, "the newest stays in any case"


@pytest.mark.parametrize(("trigger", "kept"), [(1, 1), (2, 1), (3, 1), (8, 4), (9, 8)])
def test_a_fold_leaves_fewer_turns_than_would_trigger_the_next(trigger: int, kept: int) -> None:
    assert folded_by(thread(trigger + 1), Folding(trigger_after_turns=trigger)).kept == kept


def test_the_call_and_the_intent_are_never_folded() -> None:
    turns = thread(6)
    due = folded_by(turns, Folding(trigger_after_turns=5, keep_turns=1))
    view = shown(SYSTEM, due.folded, turns[-due.kept :])
    assert view == [*SYSTEM, Message("user", "go"), Message("user", due.folded.summary), *turns[-1].messages]


def test_each_intent_stays_before_the_turns_that_it_began() -> None:
    turns = [turn(1, intent="one"), turn(2), turn(3, intent="two"), turn(4), turn(5, intent="three")]
    due = folded_by(turns, Folding(trigger_after_turns=4, keep_turns=2))
    view = shown((), due.folded, turns[-2:], [Message("user", "four")])
    asked = [message.content for message in view if message.role == "user"]
    assert asked == ["one", "two", due.folded.summary, "three", "four"]


def test_of_very_many_intents_the_newest_stay() -> None:
    earlier = Folded(through=1, summary="[turn 1 folded: …]", intents=(Message("user", "a" * INTENT_CHARS),))
    turns = [turn(2, intent="b"), turn(3, intent="c"), turn(4)]
    due = folded_by(turns, Folding(trigger_after_turns=2, keep_turns=1), earlier=earlier)
    assert [intent.content for intent in due.folded.intents] == ["b", "c"]
    alone = folded_by([turn(1, intent="d" * 10**6), turn(2)], Folding(trigger_after_turns=1))
    assert [len(intent.content or "") for intent in alone.folded.intents] == [10**6]


def test_a_later_fold_includes_the_earlier_one() -> None:
    options = Folding(trigger_after_turns=2, keep_turns=1)
    first = folded_by([turn(1), turn(2, gate="read", gave="Error: no file"), turn(3)], options)
    assert first.folded.summary == "[turns 1-2 folded: gates called: echo (1), read (1); 1 failed]"
    second = folded_by([turn(3), turn(4, gave="Error: again"), turn(5)], options, earlier=first.folded)
    assert second.folded.summary == "[turns 1-4 folded: gates called: echo (3), read (1); 2 failed]"


def test_gates_that_do_not_exist_have_no_line_of_their_own() -> None:
    turns = [turn(number, gate=f"gate{number}") for number in range(100)] + [turn(100, gate="] \n odd (7)"), turn(101)]
    summary = folded_by(turns, Folding(trigger_after_turns=3)).folded.summary
    assert summary.startswith("[turns 0-100 folded: gates called: gate0 (1), ")
    assert summary.endswith("others (82)]")


def test_selective_keeps_what_the_entity_said_and_drops_what_its_gates_gave() -> None:
    turns = [turn(1, said="I look.", gave="a secret"), turn(2, said="I see."), turn(3)]
    due = folded_by(turns, Folding(strategy="selective", trigger_after_turns=2, keep_turns=1))
    assert due.folded.summary == (
        "[turns 1-2 folded: gates called: echo (2)]\n\n"
        'turn 1:\nI look.\ncalled echo {"text": "1"}\n\n'
        'turn 2:\nI see.\ncalled echo {"text": "2"}'
    )
    options = Folding(strategy="selective", trigger_after_turns=1)
    later = folded_by([turn(3, said="Then."), turn(4)], options, earlier=due.folded)
    heading, *told = later.folded.summary.split("\n\n")
    assert heading == "[turns 1-3 folded: gates called: echo (3)]"
    assert [paragraph.split("\n")[1] for paragraph in told] == ["I look.", "I see.", "Then."]


def test_what_stands_for_folded_turns_never_grows_without_end() -> None:
    options, earlier = Folding(strategy="selective", trigger_after_turns=1), None
    for number in range(1, 40):
        turns = [turn(number, said=f"{number} " + "x" * 2000), turn(number + 1)]
        earlier = folded_by(turns, options, earlier=earlier).folded
    assert earlier is not None
    assert len(earlier.summary) < SUMMARY_CHARS + 200
    assert earlier.summary.startswith("[turns 1-39 folded: gates called: echo (39)]\n\nturn 29:\n29 xxx")


def test_summary_asks_a_crystal_and_takes_its_text() -> None:
    options = Folding(strategy="summary", trigger_after_turns=2, keep_turns=1)
    turns = [turn(1, said="I look.", gave="42", intent="find it"), turn(2, gave="Error: gone"), turn(3)]
    due = folded_by(turns, options)
    system, asked = due.request
    assert (system.role, asked.role) == ("system", "user")
    assert asked.content == (
        'turn 1:\nasked: find it\nI look.\ncalled echo {"text": "1"}\necho gave: 42\n\n'
        'turn 2:\ncalled echo {"text": "2"}\necho gave: Error: gone'
    )
    told = due.summarised("It is 42.")
    assert told.summary == "[turns 1-2 folded: gates called: echo (2); 1 failed]\n\nIt is 42."
    assert due.summarised(" ") == due.folded, "a crystal that says nothing leaves the note alone"
    later = folded_by([turn(3), turn(4), turn(5)], options, earlier=told)
    assert "before these turns:\n[turns 1-2 folded" in (later.request[1].content or "")
    assert "It is 42." in (later.request[1].content or "")
    assert later.summarised("42, twice.").summary.endswith("1 failed]\n\n42, twice.")


def test_a_request_for_a_summary_is_itself_no_longer_than_the_crystal_takes() -> None:
    turns = [turn(number, gave="x" * 10**6) for number in range(1, 12)]
    due = folded_by(turns, Folding(strategy="summary"), 10**6, context_limit=5000)
    assert estimate_tokens(due.request) < 5000


def test_an_estimate_counts_characters_by_four() -> None:
    assert estimate_tokens([Message("user", "x" * 400)]) == 104
    assert estimate_tokens([Message("assistant", None, (ToolCall("1", "echo", "x" * 396),))]) == 104


MESSAGE = st.text(max_size=40)


@st.composite
def turns_of_a_thread(draw: st.DrawFn) -> list[TurnMessages]:
    """Turns with several calls, with none (and then a nudge or a new intent after them), and with none at all."""
    turns: list[TurnMessages] = []
    for number in range(1, draw(st.integers(1, 30)) + 1):
        calls = tuple(
            ToolCall(f"{number}.{index}", draw(st.sampled_from(["echo", "read"])))
            for index in range(draw(st.integers(0, 3)))
        )
        answers = [Message("tool", draw(MESSAGE), tool_call_id=call.id, is_error=draw(st.booleans())) for call in calls]
        nudge = [] if calls else [Message("user", "Go on.")]
        intents = [Message("user", draw(MESSAGE)) for _ in range(draw(st.integers(0, 2)))]
        turns.append(
            TurnMessages(
                number=number,
                messages=(Message("assistant", draw(MESSAGE), calls), *answers, *nudge),
                intents=tuple(intents or ([Message("user", "go")] if number == 1 else [])),
            )
        )
    return turns


OPTIONS = st.builds(
    Folding,
    strategy=st.sampled_from(["window", "summary", "selective"]),
    keep_turns=st.integers(1, 5),
    trigger_after_turns=st.none() | st.integers(1, 8),
    trigger_at_tokens=st.none() | st.integers(1, 300),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(turns_of_a_thread(), OPTIONS)
def test_a_view_is_well_formed_however_it_was_folded(turns: list[TurnMessages], options: Folding) -> None:
    earlier: Folded | None = None
    whole: list[TurnMessages] = []
    for following in turns:
        whole.append(following)
        due = fold(whole, options, used_tokens=estimate_tokens(shown(SYSTEM, earlier, whole)), earlier=earlier)
        if due is not None:
            gone, whole = whole[: -due.kept], whole[-due.kept :]
            earlier = due.summarised("told") if due.request else due.folded
            assert earlier.through == gone[-1].number
            assert len(whole) <= options.keep_turns
        view = shown(SYSTEM, earlier, whole)
        assert view[0] == SYSTEM[0]
        assert view[-len(following.messages) :] == list(following.messages)
        assert [message for message in view if message.role == "system"] == list(SYSTEM)
        asked = [intent for each in turns[: following.number] for intent in each.intents]
        assert asked[-1] in view
        if options.trigger_at_tokens is None:
            assert all(intent in view for intent in asked)
        for before, after in pairwise(view):
            if before.role == "assistant" and before.tool_calls:
                assert after.tool_call_id == before.tool_calls[0].id
            assert not (before.role == after.role == "assistant")
        called = [call.id for message in view for call in message.tool_calls]
        assert [message.tool_call_id for message in view if message.role == "tool"] == called
        if earlier is not None:
            assert f"{earlier.through} folded: " in earlier.summary
