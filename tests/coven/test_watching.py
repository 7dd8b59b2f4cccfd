"""What a person sees on a terminal while an episode is at work."""

from __future__ import annotations

import pytest

from branches.agents.crystal import Usage
from branches.agents.events import AnyEvent, StepStartEvent, TextEvent, ThinkingEvent, ToolCallEvent, UsageEvent
from coven.cli._watching import Watching


def seen(*events: AnyEvent, colour: bool = False) -> str:
    written: list[str] = []
    watching = Watching(written.append, colour=colour)
    for event in events:
        watching.tell(event)
    watching.close()
    return "".join(written)


def thinks(text: str, turn: str = "t", depth: int = 0, *, restart: bool = False) -> ThinkingEvent:
    return ThinkingEvent(session="s", entity_id="e", turn_id=turn, depth=depth, text=text, restart=restart)


STARTS = StepStartEvent(session="s", entity_id="e", turn_id="t", step=1)
SAYS = TextEvent(session="s", entity_id="e", turn_id="t", text="Hello.")
CALLS = ToolCallEvent(session="s", entity_id="e", turn_id="t", id="c", gate="echo", arguments={"text": "hi"})
USED = UsageEvent(session="s", entity_id="e", turn_id="other", usage=Usage(), total=Usage())


def test_a_thought_grows_in_its_line_and_ends_with_what_comes_behind_it() -> None:
    assert seen(STARTS, thinks("They "), thinks("greet."), SAYS, CALLS) == (
        'turn 1\n  (They greet.)\n  echo(text="hi")\n'
    )


def test_a_thought_of_many_lines_stays_behind_its_margin() -> None:
    thought = [thinks(piece, depth=1) for piece in ("\n", "One\n", "\n  two", "\n")]
    assert seen(*thought) == "    (One\n      two)\n"


def test_whoever_is_interrupted_leaves_no_line_open() -> None:
    assert seen(thinks("Hm")) == "  (Hm)\n"
    assert seen(thinks("")) == ""


def test_what_the_crystal_thinks_when_it_is_asked_again_begins_anew() -> None:
    assert seen(thinks("Good"), thinks("Bad", restart=True), thinks("", restart=True)) == "  (Good)\n  (Bad)\n"


def test_thoughts_of_children_that_think_at_the_same_time_do_not_mix() -> None:
    assert seen(thinks("a", "one", 1), USED, thinks("b", "one", 1), thinks("x", "two", 1), thinks("c", "one", 1)) == (
        "    (ab)\n    (x)\n    (c)\n"
    )


@pytest.mark.parametrize("colour", [True, False])
def test_thoughts_are_faint_where_there_is_colour_and_never_drive_the_terminal(colour: bool) -> None:
    told = seen(thinks("a\x1b[31mb"), SAYS, colour=colour)
    assert told == ("  \x1b[2m(\x1b[0m\x1b[2ma[31mb\x1b[0m\x1b[2m)\x1b[0m\n" if colour else "  (a[31mb)\n")
