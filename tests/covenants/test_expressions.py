"""Expressions: bare names are attribute reads, the rest is CEL, and what cannot work is known before any record."""

from __future__ import annotations

import contextlib
import re
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covenants import TransformFailed
from covenants.expressions import ExpressionError, compile_expression
from journals import Entry, Record


class Order(Entry, frozen=True, kw_only=True):
    text: str
    count: int = 1
    lines: tuple[str, ...] = ()
    placed: datetime | None = None
    details: dict[str, Any] = {}


ORDER = Order(text="Tea", count=2, lines=("a", "b"), placed=datetime(2026, 1, 2), details={"gift": True})
RECORD = Record(
    journal="shop",
    position=7,
    id="r7",
    kind="Order",
    session="s1",
    entry=ORDER,
    time=12.5,
    correlation_id="c1",
    origin="discord",
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("text", "Tea"),
        (" count ", 2),
        ("origin", "discord"),
        ("record.position", 7),
        ("record.session", "s1"),
        ("record . correlation_id", "c1"),
        ("text + '!'", "Tea!"),
        ("count > 1 && origin == 'discord'", True),
        ("origin in ['discord', 'console']", True),
        ("lines.map(line, line + text)", ["aTea", "bTea"]),
        ("lines.exists(text, text == 'b')", True),
        ("size(lines)", 2),
        ("details.gift", True),
        ("placed.startsWith('2026')", True),
        ("record.time > 12.0 ? record.kind : 'none'", "Order"),
        ("record.causation_id == null", True),
        ("type(count) == int", True),
        ("text.lowerAscii()", "tea"),
        ("math.greatest(count, 5)", 5),
        ("'record.nonsense and text'", "record.nonsense and text"),
        ("''", ""),
        ("true", True),
        ("null", None),
        (5, 5),
        (2.5, 2.5),
        (False, False),
        (None, None),
    ],
)
def test_the_value(text: Any, value: Any) -> None:
    assert compile_expression(text, Order).read(RECORD) == value


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("'a' + 'b'", set()),
        ("text", {"text"}),
        ("origin", {"origin"}),
        ("record.id", {"record.id"}),
        ("text + record.id + 'record.session'", {"text", "record.id"}),
        ("[record].map(each, each.session)[0]", {"record"}),
        ("record['session'] + record.id", {"record"}),
        ("""r"it's" + record.session + r"x\"""", {"record.session"}),
        ("""r'"' + record.session + r'"'""", {"record.session"}),
        ("""r'''it's''' + record.session + "'\"""", {"record.session"}),
        ("""'''it's''' + record.session + "'\"""", {"record.session"}),
    ],
)
def test_what_an_expression_looks_at(text, reads) -> None:
    assert compile_expression(text, Order).reads == reads


def test_only_what_is_the_same_for_every_record_is_constant() -> None:
    assert compile_expression("'a' + 'b'", Order).constant
    assert not compile_expression("text", Order).constant
    assert not compile_expression("text + 'b'", Order).constant


@pytest.mark.parametrize(
    ("text", "code", "at"),
    [
        ("▮txt", "E305", "text"),
        ("count > ▮cuont", "E305", "count"),
        ("'cuont' + ▮cuont", "E305", "count"),
        ("record.▮positon", "E305", "position"),
        ("count > 1 && record.▮idd != ''", "E305", "id"),
        ("text.▮startsWit('a')", "E305", "startsWith"),
        ("text ▮text", "E304", ""),
        ("(count > 1▮", "E304", ""),
        ("▮", "E304", ""),
        ("count ▮= 1", "E304", "`==`"),
        ("text == 'a=b' ▮text", "E304", "cel.dev"),
        ("▮1 / 0", "E304", ""),
    ],
)
def test_what_cannot_work_is_refused_where_it_stands(text: str, code: str, at: str) -> None:
    offset = text.index("▮")
    with pytest.raises(ExpressionError) as raised:
        compile_expression(text.replace("▮", ""), Order)
    assert raised.value.code == code
    assert abs(raised.value.offset - offset) <= (1 if code == "E304" else 0)
    assert at in raised.value.hint


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("text == ", "this is no CEL: it ends too early"),
        ("text == == text", "this is no CEL: '==' does not belong here"),
        ("text text", "this is no CEL: 'text' does not belong here"),
        ("@", "this is no CEL: '@' does not belong here"),
    ],
)
def test_it_is_said_in_plain_words_what_is_wrong_with_the_form(text: str, says: str) -> None:
    with pytest.raises(ExpressionError, match=f"^{re.escape(says)}$"):
        compile_expression(text, Order)


@pytest.mark.parametrize("text", ["text + count", "lines[5]", "details.nothing", "int(text)", "count / (count - 2)"])
def test_what_fails_for_a_record_is_a_failure_of_its_route(text: str) -> None:
    expression = compile_expression(text, Order)
    with pytest.raises(TransformFailed) as raised:
        expression.read(RECORD)
    assert raised.value.code == "expression"
    assert text in str(raised.value)


@settings(deadline=None)
@given(
    st.one_of(
        st.text(max_size=30),
        st.lists(st.sampled_from([*"()[]{}.+-?:&|!=<>'\"\\, ", "text", "record", "1"])).map("".join),
    )
)
def test_any_text_is_an_expression_or_is_refused(text: str) -> None:
    try:
        expression = compile_expression(text, Order)
    except ExpressionError as refused:
        offset = refused.offset
    else:
        with contextlib.suppress(TransformFailed):
            expression.read(RECORD)
        return
    assert 0 <= offset <= len(text)
