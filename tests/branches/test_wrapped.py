"""Text broken into lines: at spaces only, and nothing of it is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from branches.wrapped import wrapped


def test_a_line_goes_on_as_far_in_as_it_began() -> None:
    assert wrapped("one two three\n    add a line", 9) == "one two\nthree\n    add a\n    line"


def test_an_address_stays_whole_and_what_fits_stays_as_it_is() -> None:
    assert wrapped("see https://example.org/a-long-way", 12) == "see\nhttps://example.org/a-long-way"
    assert wrapped("  two   spaces\n\n", 20) == "  two   spaces\n\n"


@given(st.text(alphabet="ab- \n", max_size=60), st.integers(1, 20))
def test_no_word_is_lost_and_lines_fit_where_words_do(text: str, columns: int) -> None:
    lines = wrapped(text, columns)
    assert lines.split() == text.split()
    for line in lines.split("\n"):
        assert len(line) <= columns or len(line.split()) <= 1
