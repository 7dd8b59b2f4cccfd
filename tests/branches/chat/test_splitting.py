"""Splitting: no message too long, no text lost, every code block whole to look at."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branches.chat.splitting import split

LIMIT = 200
lines = st.text(st.sampled_from("abcdefghijk .!?-*é🙂"), max_size=300)
fences = st.sampled_from(["```", "```python", "````", "  ```js", "``` "])
documents = st.lists(lines | fences | st.just(""), max_size=25).map("\n".join)
_FENCE = re.compile(r"[ \t]*`{3,}[^`]*")


def words(text: str) -> str:
    """Every character that is neither white space nor in a fence's line."""
    return "".join("".join(line.split()) for line in text.split("\n") if not _FENCE.fullmatch(line))


def closed(message: str) -> bool:
    marks = ""
    for line in message.split("\n"):
        if not _FENCE.fullmatch(line):
            continue
        found = line.strip()
        mark = re.match("`+", found)[0]
        if not marks:
            marks = mark
        elif found == mark and len(mark) >= len(marks):
            marks = ""
    return not marks


@given(documents)
def test_messages_fit_lose_no_text_and_close_their_code(text: str):
    messages = split(text, LIMIT)
    assert all(0 < len(message) <= LIMIT and message.strip() for message in messages)
    assert "".join(words(message) for message in messages) == words(text)
    assert all(closed(message) for message in messages)


def test_a_short_text_is_one_message_and_a_blank_one_is_none():
    assert split("hello\n\nworld\n", LIMIT) == ["hello\n\nworld"]
    assert split(" \n\n ", LIMIT) == []


def test_it_is_cut_at_a_blank_line_then_a_line_then_a_sentence_then_a_word():
    one, two = "a" * 120, "b" * 120
    assert split(f"{one}\n\n{two}", LIMIT) == [one, two]
    assert split(f"x\n\n{one}\n{two}", LIMIT) == [f"x\n\n{one}", two]
    assert split(f"{one}. {two}", LIMIT) == [f"{one}.", two]
    assert split(f"{one} {two}", LIMIT) == [one, two]


def test_a_word_that_is_too_long_is_cut():
    messages = split("x" * 450, LIMIT)
    assert "".join(messages) == "x" * 450
    assert len(messages) == 3


def test_a_code_block_that_is_cut_is_closed_and_opened_again():
    code = [f"line_{number} = {number:03}" for number in range(30)]
    messages = split("\n".join(["```python", *code, "```", "Done."]), LIMIT)
    assert len(messages) == 3
    assert all(message.startswith("```python\nline_") for message in messages)
    assert [message.endswith("\n```") for message in messages] == [True, True, False]
    assert messages[-1].endswith("\n```\nDone.")


def test_a_code_block_goes_whole_into_the_next_message_where_it_fits():
    code = "```\n" + "y" * 100 + "\n```"
    assert split("x" * 110 + "\n" + code, LIMIT) == ["x" * 110, code]


def test_no_empty_code_block_is_left_over_where_the_block_ends_at_the_limit():
    for length in range(150, 200):
        messages = split("```py\n" + "x" * length + "\n```\nmore\n" + "z" * 100, LIMIT)
        assert not any("```py\n```" in message for message in messages)


def test_indentation_in_code_is_kept():
    code = "\n".join(f"    deep_{number}()" for number in range(30))
    messages = split(f"```\n{code}\n```", LIMIT)
    inside = [line for message in messages for line in message.split("\n") if "`" not in line]
    assert inside == code.split("\n")


def test_a_block_that_is_still_being_written_is_closed_for_now():
    assert split("```py\nx = 1", LIMIT) == ["```py\nx = 1\n```"]


def test_a_limit_that_leaves_no_room_is_refused():
    with pytest.raises(ValueError, match="200"):
        split("text", 100)
