"""Reading the file: whatever is in it, the outcome is a document or problems with a place, and never a traceback."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covenants import check, load, load_text
from covenants.parsing import MAX_BYTES, parse
from tests.covenants.configs import CATALOGUE, RIGHT, checked, unmarked


def found(text: str | bytes) -> list[tuple[str, int, int]]:
    data = text if isinstance(text, bytes) else text.encode()
    return [(problem.code, problem.line, problem.column) for problem in load_text(data, {}).problems]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: 1\n▮\tb: 2\n", "E104"),
        ("a: x▮\t# a tab before a comment", "E104"),
        ("a: b▮: c", "E105"),
        ("a: [1, 2▮", "E105"),
        ("a: 'never closed▮", "E105"),
        ("a: ▮*nobody", "E105"),
        ("a: ▮@home", "E105"),
        ("a: 1\n▮---\nb: 2", "E105"),
        ("a: 1\nb: 2\n▮a: 3", "E106"),
        ("a: {b: 1, ▮b: 2}", "E106"),
        ("a: ▮&loop [*loop]", "E107"),
        ("a: ▮&loop {b: {c: *loop}}", "E107"),
        ("a: ▮!python/object x", "E109"),
        ("a: ▮!!binary aGk=", "E109"),
        ("▮1: a", "E109"),
        ("? ▮[a]\n: b", "E109"),
        ("a: {<<: ▮1}", "E109"),
    ],
)
def test_yaml_that_is_wrong_is_shown_where(text: str, code: str) -> None:
    text, (line, column) = unmarked(text)
    assert (code, line, column) in found(text)
    assert all(problem.hint for problem in load_text(text.encode(), {}).problems)


@pytest.mark.parametrize(
    ("data", "code", "place"),
    [
        (b"", "E103", (1, 1)),
        (b" \n\n", "E103", (1, 1)),
        (b"# nothing but this\n", "E103", (1, 1)),
        (b"---\n", "E103", (2, 1)),
        (b"coven: a\nname: \x00", "E102", (2, 7)),
        (b"coven: \xff", "E102", (1, 8)),
        (b"\x89PNG\r\n\x1a\n", "E102", (1, 1)),
        ("coven: a".encode("utf-16"), "E102", (1, 1)),
        (b"a: " + b"[" * 5_000, "E108", (1, 1)),
        (b"a: " + b"[" * 60 + b"]" * 60, "E108", (1, 44)),
        (b"#" * (MAX_BYTES + 1), "E108", (1, 1)),
    ],
    ids=["empty", "blank", "comments", "bare", "nul", "latin-1", "picture", "utf-16", "unclosed", "deep", "huge"],
)
def test_a_file_that_is_no_text_or_too_much_of_it(data: bytes, code: str, place: tuple[int, int]) -> None:
    assert found(data) == [(code, *place)]


def test_aliases_that_grow_without_end_are_refused() -> None:
    names = "abcdefghij"
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{new}: &{new} [{', '.join(['*' + old] * 9)}]" for old, new in pairwise(names)]
    assert [code for code, _, _ in found("\n".join(lines))] == ["E108"]


def test_a_number_beyond_all_measure_is_a_problem() -> None:
    assert [code for code, _, _ in found("a: " + "9" * 5_000)] == ["E105"]


def test_aliases_and_merges_do_what_yaml_says() -> None:
    document = parse("x.yaml", b"base: &base {a: 1, b: 2}\nmine: {<<: *base, b: 3}\nlist: [*base, *base]\n")
    assert document.root["mine"] == {"a": 1, "b": 3}
    assert document.root["list"] == [{"a": 1, "b": 2}] * 2


def test_words_that_other_yaml_takes_for_booleans_stay_texts() -> None:
    assert parse("x.yaml", b"{a: yes, b: off, c: true, d: 2020-01-01, e: ~, f: 1_0}").root == {
        "a": "yes",
        "b": "off",
        "c": True,
        "d": "2020-01-01",
        "e": None,
        "f": 10,
    }


def test_a_mark_at_the_beginning_and_windows_lines_change_nothing() -> None:
    assert checked("\ufeff" + RIGHT.replace("\n", "\r\n")).config is not None


def test_one_doubled_key_does_not_hide_the_rest() -> None:
    text = RIGHT.replace("coven: hearth", "coven: hearth\ncoven: other").replace("- ChatAfferent", "- ChatAferent")
    assert [problem.code for problem in checked(text).problems] == ["E106", "E206"]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    (problem,) = load(tmp_path / "coven.yaml", {}).problems
    assert problem.code == "E101"
    assert "No such file" in problem.message
    assert "coven init" in problem.hint


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert [problem.code for problem in load(tmp_path, {}).problems] == ["E101"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "coven.yaml"
    path.write_text(RIGHT)
    path.chmod(0)
    assert [problem.code for problem in load(path, {}).problems] == ["E101"]


def test_a_path_that_no_system_takes() -> None:
    assert [problem.code for problem in load("a\0b", {}).problems] == ["E101"]


def test_a_loaded_file_knows_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "coven.yaml"
    path.write_text(RIGHT)
    loaded = load(path, {})
    assert loaded.base == tmp_path
    config = check(loaded, CATALOGUE).config
    assert config is not None
    assert (config.coven, config.base) == ("hearth", tmp_path)


# Whatever comes

SIGNS = [
    *"{}[]:,-?&*!|>'\"%@`#~<=.$ \n\t\\1é\x07",
    "<<",
    "->",
    "&a ",
    "*a",
    "${A}",
    "!!str ",
    "- ",
    ": ",
    "\n  ",
    "\n    ",
]
WORDS = ["coven", "branches", "covenant", "chat", "agents", "nowhere", "route", "map", "when", "when: text +"]
TOKENS = st.sampled_from(SIGNS + WORDS)


def nothing_is_raised(data: bytes) -> None:
    loaded = load_text(data, {})
    outcome = check(loaded, CATALOGUE)
    assert outcome.problems or outcome.config is not None
    lines = data.decode("utf-8-sig", "replace").split("\n")
    for problem in outcome.problems:
        assert 1 <= problem.line <= len(lines) + 1
        assert problem.column >= 1
        assert (problem.message + problem.hint.replace("\n", "")).isprintable()
        assert str(problem)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_give_problems_and_no_traceback(data: bytes) -> None:
    nothing_is_raised(data)


@settings(deadline=None)
@given(st.lists(TOKENS, max_size=40).map("".join))
def test_anything_like_yaml_gives_problems_and_no_traceback(text: str) -> None:
    nothing_is_raised(text.encode())


@settings(deadline=None)
@given(st.data())
def test_a_right_file_with_a_piece_changed_gives_no_traceback(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(RIGHT)))
    length = data.draw(st.integers(0, 12))
    piece = data.draw(st.one_of(st.text(max_size=5), st.lists(TOKENS, max_size=4).map("".join)))
    nothing_is_raised((RIGHT[:start] + piece + RIGHT[start + length :]).encode("utf-8", "replace"))
