"""Actions, steps and ledgers are values: JSON, and immutable all the way down."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import Action, InvalidPayload, Ledger, Snapshot, Step, action_call, error_result, fingerprint, freeze

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
PAYLOADS = st.dictionaries(st.text(max_size=5), JSON, max_size=4)


@given(PAYLOADS)
def test_a_frozen_payload_equals_what_it_was_made_of_and_encodes_the_same(payload: dict[str, Any]) -> None:
    frozen = freeze(payload)
    assert msgspec.json.encode(frozen) == msgspec.json.encode(payload)
    assert freeze(frozen) is frozen


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p.__setitem__("a", 1),
        lambda p: p.__delitem__("a"),
        lambda p: p.update(a=1),
        lambda p: p.setdefault("z", 1),
        lambda p: p.pop("a"),
        lambda p: p.popitem(),
        lambda p: p.clear(),
        lambda p: p.__ior__({"a": 1}),
        lambda p: p["a"]["b"].append(1),
        lambda p: p["a"].update(b=1),
    ],
)
def test_nothing_in_a_step_can_be_changed(change: Any) -> None:
    step = Step("1", "user", "text", {"a": {"b": [1, {"c": 2}]}})
    with pytest.raises((TypeError, AttributeError)):
        change(step.payload)
    assert step.payload == {"a": {"b": (1, {"c": 2})}}


def test_a_step_keeps_nothing_of_what_it_was_given() -> None:
    given_payload = {"a": [1]}
    step = Step("1", "user", "text", given_payload)
    given_payload["a"].append(2)
    assert step.payload["a"] == (1,)
    with pytest.raises(AttributeError):
        step.actor = "other"  # type: ignore[misc]
    assert copy.deepcopy(step) == step


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: 2}, object(), b"bytes", {"a": {1}}])
def test_what_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(InvalidPayload):
        Action("policy", {"x": value})


def test_a_payload_that_is_nested_too_deep_is_refused() -> None:
    deep: Any = []
    for _ in range(2000):
        deep = [deep]
    with pytest.raises(InvalidPayload, match="nested deeper"):
        Step("1", "a", "text", {"deep": deep})


@given(PAYLOADS)
def test_a_fingerprint_does_not_depend_on_the_order_of_keys(payload: dict[str, Any]) -> None:
    assert fingerprint(payload) == fingerprint(dict(reversed(payload.items())))


def test_an_action_takes_its_actions_as_a_set() -> None:
    assert Action("a", {}, {"b", "c"}).actions == frozenset({"b", "c"})  # type: ignore[arg-type]


def test_errors_are_data() -> None:
    error = error_result("tool", "not_found", "there is no such city")
    assert error.is_error
    assert error.payload == {"error": True, "code": "not_found", "message": "there is no such city"}
    assert not action_call("me", Action("tool", {"x": 1})).is_error


STEP = Step("1", "a", "text", {"n": 1})


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 3))))
def test_ledgers_that_grow_from_one_another_never_change_each_other(growths: list[tuple[int, int]]) -> None:
    """Each growth takes some earlier ledger and adds steps to it; a plain tuple says what must come out."""
    ledgers: list[tuple[Ledger, tuple[Step, ...]]] = [(Ledger(), ())]
    for number, (which, count) in enumerate(growths):
        ledger, expected = ledgers[which % len(ledgers)]
        new = tuple(Step(f"{number}.{n}", "a", "text") for n in range(count))
        grown = ledger.append(new[0]) if count == 1 else ledger.extend(new)
        ledgers.append((grown, expected + new))
    for ledger, expected in ledgers:
        assert ledger.steps == expected
        assert list(ledger) == list(expected)
        assert len(ledger) == len(expected)
        assert ledger == Ledger(expected)
        assert hash(ledger) == hash(Ledger(expected))


def test_a_ledger_reads_like_a_sequence() -> None:
    ledger = Ledger([STEP, Step("2", "b", "text")])
    assert ledger[0] is STEP
    assert ledger[-1].id == "2"
    assert [step.id for step in ledger[::-1]] == ["2", "1"]
    with pytest.raises(IndexError):
        ledger[2]
    assert repr(ledger) == "<Ledger of 2 steps>"


def test_a_snapshot_shows_what_was_there_when_it_was_taken() -> None:
    items = ["a", "b"]
    snapshot = Snapshot(items)
    items.append("c")
    assert list(snapshot) == ["a", "b"]
    assert snapshot[-1] == "b"
    assert snapshot[:5] == ("a", "b")
    assert snapshot == Snapshot(["a", "b"])
    assert snapshot != ["a", "b"]
