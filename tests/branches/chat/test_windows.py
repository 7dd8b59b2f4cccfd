"""Windows: what goes through, put together, is what came; where it is cut depends on the text alone."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branches.chat.windows import Held, Window, Windows, take
from coven.testing import ManualClock

PARAGRAPHS, SENTENCES = Window(paragraph=True), Window(sentence=True)
texts = st.text(st.sampled_from('ab.!? \n\t"*#<>é🙂`1'), max_size=120)
windows = st.builds(
    Window,
    paragraph=st.booleans(),
    sentence=st.booleans(),
    max_chars=st.none() | st.integers(1, 40),
    marker=st.none() | st.sampled_from(["<a>", "a", "\n"]),
    debounce_s=st.none() | st.just(1.0),
)


def pieces_of(window: Window, *parts: str) -> list[str]:
    held, through = Held(), []
    for part in parts:
        pieces, held = take(window, held, part)
        through += pieces
    return [*through, held.text] if held.text else through


@pytest.mark.parametrize(
    ("window", "text", "pieces"),
    [
        (Window(), "as it comes", ["as it comes"]),
        (PARAGRAPHS, "one\n\ntwo\n \nthree", ["one\n\n", "two\n \n", "three"]),
        (PARAGRAPHS, "\n\n\none\n\n\ntwo", ["\n\n\none\n\n", "\ntwo"]),
        (SENTENCES, 'One. "Two!" Three', ["One. ", '"Two!" ', "Three"]),
        (SENTENCES, "3.14 and more", ["3.14 and more"]),
        (Window(max_chars=4), "abcdefghij", ["abcd", "efgh", "ij"]),
        (Window(marker="<go>"), "a<go>b<go>", ["a<go>", "b<go>"]),
        (Window(sentence=True, max_chars=6), "Hi. abcdefgh", ["Hi. ", "abcdef", "gh"]),
        (Window(paragraph=True, marker="|"), "a|b\n\nc", ["a|", "b\n\n", "c"]),
        (Window(debounce_s=1), "One. Two.\n\n", ["One. Two.\n\n"]),
    ],
)
def test_text_goes_through_at_the_first_boundary(window: Window, text: str, pieces: list[str]):
    assert pieces_of(window, text) == pieces


@given(windows, texts, st.lists(st.integers(0, 120)))
def test_pieces_are_the_text_and_do_not_depend_on_how_it_came(window: Window, text: str, cuts: list[int]):
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    parts = [text[a:b] for a, b in itertools.pairwise(places)]
    pieces = pieces_of(window, *parts)
    assert "".join(pieces) == text
    if not window.at_once:
        assert pieces == pieces_of(window, text) == pieces_of(window, *text)
    if window.max_chars is not None:
        assert all(len(piece) <= window.max_chars for piece in pieces)


@given(
    windows,
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["write", "pause"]), texts), max_size=30),
)
def test_streams_never_mix_and_each_ends_as_it_was_written(window: Window, steps: list[tuple[int, str, str]]):
    clock = ManualClock()
    shown: dict[str, list[str]] = {}
    written: dict[str, str] = {}

    def show(stream: str, text: str) -> None:
        shown.setdefault(stream, []).append(text)

    through = Windows(window, clock, show)
    for number, step, text in steps:
        stream = str(number)
        if step == "pause":
            clock.advance(1.0)
        else:
            written[stream] = written.get(stream, "") + text
            for piece in through.write(stream, text):
                show(stream, piece)
    for stream in written:
        show(stream, through.complete(stream))
    assert {stream: "".join(pieces) for stream, pieces in shown.items()} == written
    assert clock.pending == 0


def test_a_pause_lets_through_what_is_held_and_a_piece_begins_the_pause_anew():
    clock, due = ManualClock(), []
    through = Windows(Window(paragraph=True, debounce_s=2), clock, lambda *piece: due.append(piece))
    assert through.write("a", "one") == []
    clock.advance(1.5)
    assert through.write("a", " two") == []
    clock.advance(1.5)
    assert due == []
    assert through.write("b", "other\n\n") == ["other\n\n"]
    clock.advance(0.5)
    assert due == [("a", "one two")]
    assert through.complete("a") == ""


def test_the_end_of_a_stream_drains_it():
    through = Windows(PARAGRAPHS, ManualClock(), lambda *_: None)
    assert through.write("a", "one\n\ntwo") == ["one\n\n"]
    assert through.complete("a") == "two"
    assert through.complete("a") == ""


def test_streams_that_never_end_are_forgotten_one_by_one():
    clock = ManualClock()
    through = Windows(Window(debounce_s=1), clock, lambda *_: None, limit=2)
    for stream in "abc":
        through.write(stream, "x")
    assert clock.pending == 2
    assert [through.complete(stream) for stream in "abc"] == ["", "x", "x"]
    assert repr(through) == "<Windows 0 streams, 0 held>"


def test_closing_leaves_no_alarm():
    clock = ManualClock()
    through = Windows(Window(debounce_s=1), clock, lambda *_: None)
    through.write("a", "x")
    through.close()
    assert clock.pending == 0
