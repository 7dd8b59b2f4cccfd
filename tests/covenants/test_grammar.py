"""The text of a route."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covenants.grammar import GrammarError, parse_endpoint, parse_route

KINDS = st.from_regex(r"[A-Z][A-Za-z0-9_]{0,20}", fullmatch=True)
INSTANCES = st.one_of(st.none(), st.from_regex(r"[a-z0-9][a-z0-9_-]{0,12}", fullmatch=True))
SPACE = st.sampled_from(["", " ", "  ", "\n  "])


@st.composite
def endpoints(draw: st.DrawFn) -> tuple[str | None, str]:
    return draw(INSTANCES), draw(KINDS)


@settings(deadline=None)
@given(endpoints(), st.lists(endpoints(), min_size=1, max_size=3), st.lists(SPACE, min_size=8, max_size=8))
def test_what_is_written_is_what_is_read(
    source: tuple[str | None, str], targets: list[tuple[str | None, str]], spaces: list[str]
) -> None:
    def written(end: tuple[str | None, str]) -> str:
        return end[1] if end[0] is None else f"{end[0]}.{end[1]}"

    text = f"{spaces[0]}{written(source)}{spaces[1]} ->{spaces[2]}"
    text += f"{spaces[3]},{spaces[4]}".join(map(written, targets)) + spaces[5]
    route = parse_route(text)
    assert [(end.instance, end.kind) for end in route.sources] == [source]
    assert [(target.instance, target.kind) for target in route.targets] == targets
    for end in (*route.sources, *route.targets):
        assert text[end.offset :].startswith(str(end))


@settings(deadline=None)
@given(
    st.one_of(
        st.text(max_size=40), st.lists(st.sampled_from(["A", "a.B", "->", ",", ".", " ", "nowhere"])).map("".join)
    )
)
def test_anything_else_is_refused_with_a_place_in_the_text(text: str) -> None:
    refused = refusal(text)
    if refused is None:
        assert "->" in text or "→" in text
        return
    assert 0 <= refused.offset <= len(text)
    assert str(refused)
    assert refused.hint


def refusal(text: str) -> GrammarError | None:
    try:
        parse_route(text)
    except GrammarError as error:
        return error
    return None


def test_nowhere_is_no_target() -> None:
    assert parse_route("AgentThought -> nowhere").targets == ()


def test_the_arrow_of_the_specification_is_read_too() -> None:
    assert [str(target) for target in parse_route("A → B").targets] == ["B"]


def test_several_kinds_go_nowhere_in_one_line() -> None:
    route = parse_route("AgentChunk, critics.AgentThought,B -> nowhere")
    assert list(map(str, route.sources)) == ["AgentChunk", "critics.AgentThought", "B"]
    assert [end.offset for end in route.sources] == [0, 12, 33]


def test_several_kinds_go_nowhere_else_together() -> None:
    with pytest.raises(GrammarError, match="go to `nowhere` alone") as raised:
        parse_route("A, B -> C")
    assert (raised.value.offset, raised.value.hint) == (3, "write a route for each of them")


@pytest.mark.parametrize("text", ["A, -> nowhere", ", A -> nowhere", "A,, B -> nowhere"])
def test_each_of_several_is_a_kind(text: str) -> None:
    with pytest.raises(GrammarError, match="a kind belongs here"):
        parse_route(text)


@pytest.mark.parametrize("text", ["A -> nowhere, B", "A -> B, nowhere"])
def test_nowhere_stands_alone(text: str) -> None:
    with pytest.raises(GrammarError, match="stands alone") as raised:
        parse_route(text)
    assert text[raised.value.offset :].startswith("nowhere")


def test_an_instance_may_be_called_nowhere_by_its_kind() -> None:
    assert str(parse_endpoint("critics.nowhere")) == "critics.nowhere"
