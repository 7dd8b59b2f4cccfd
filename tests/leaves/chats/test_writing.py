"""What of a streamed text goes above the prompt for good, and that the message itself is not printed twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leaves.chats._writing import Writing

ROOM = 40
PIECES = st.lists(st.text(alphabet="ab \n", min_size=1, max_size=8), max_size=20)


def test_whole_lines_go_up_and_the_last_one_stays_live():
    writing = Writing()
    assert writing.add("s", "c", "one\ntw", "them> ", ROOM) == "them> one\n"
    assert writing.live == "tw"
    assert writing.finish("c", "one\ntwo") == "two\n"
    assert writing.live == ""


def test_a_message_that_was_not_streamed_is_printed_whole():
    assert Writing().finish("c", "hello") is None


def test_an_utterance_that_called_tools_stays_and_the_message_is_printed():
    writing = Writing()
    writing.add("first", "c", "let me look", "them> ", ROOM)
    assert writing.add("second", "c", "it says", "them> ", ROOM) == "them> let me look\n"
    assert writing.finish("c", "it says milk") == "them> it says milk\n"


def test_the_answer_to_another_prompt_is_printed_whole_below_what_stood_live():
    writing = Writing()
    writing.add("s", "c", "half", "them> ", ROOM)
    assert writing.finish("d", "other") is None
    assert writing.rest() == "them> half\n"


def test_pieces_that_come_behind_their_message_are_not_shown():
    writing = Writing()
    assert writing.finish("c", "whole") is None
    assert writing.add("s", "c", "whole", "them> ", ROOM) == ""
    assert writing.live == ""


def test_a_text_that_was_begun_again_is_printed_whole():
    writing = Writing()
    writing.add("s", "c", "I thi", "them> ", ROOM)
    assert writing.finish("c", "You see") is None


def test_a_line_that_outgrows_its_room_is_broken_between_words():
    writing = Writing()
    assert writing.add("s", "c", "one two three", "", 10) == "one two \n"
    assert writing.live == "three"


@given(PIECES)
def test_what_was_put_up_is_the_text_however_it_was_cut(pieces: list[str]):
    text, writing = "".join(pieces), Writing()
    lines = "".join(writing.add("s", "c", piece, "", 1000) for piece in pieces)
    ended = writing.finish("c", text)
    assert ended is None if not text.strip() else lines + ended == text + "\n"
