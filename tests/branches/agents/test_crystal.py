"""The crystal's contract: which responses are valid."""

from __future__ import annotations

import pytest

from branches.agents.crystal import CrystalError, CrystalRequest, CrystalResponse, ToolCall, Usage, validate

REQUEST = CrystalRequest([])
CALL = ToolCall("call_1", "echo", "{}")


@pytest.mark.parametrize(
    "response",
    [
        CrystalResponse(content="hello"),
        CrystalResponse(tool_calls=(CALL,)),
        CrystalResponse(content="hello", tool_calls=(CALL, ToolCall("call_2", "echo", "not json"))),
    ],
)
def test_text_or_calls_or_both_are_valid(response: CrystalResponse) -> None:
    assert validate(response, REQUEST) is response


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (CrystalResponse(), "crystal returned neither content nor tool_calls"),
        (CrystalResponse(content=""), "crystal returned neither content nor tool_calls"),
        (CrystalResponse(tool_calls=(CALL, CALL)), "duplicate tool call ID"),
        (CrystalResponse(tool_calls=(ToolCall("", "echo"),)), "tool call without an ID"),
        (CrystalResponse(content="\ud800"), "not valid Unicode"),
        (CrystalResponse(tool_calls=(ToolCall("1", "\ud800"),)), "not valid Unicode"),
        (None, "crystal returned NoneType instead of a CrystalResponse"),
        (CrystalResponse(content=5), "of another shape: Expected `str | null`, got `int`"),  # type: ignore[arg-type]
        (CrystalResponse(tool_calls=(ToolCall("1", "echo", {"text": "x"}),)), "of another shape"),  # type: ignore[arg-type]
    ],
)
def test_what_breaks_the_contract_is_said(response: CrystalResponse, message: str) -> None:
    with pytest.raises(CrystalError, match=message) as caught:
        validate(response, REQUEST)
    assert caught.value.code == "invalid_response"


def test_a_required_call_must_be_made() -> None:
    with pytest.raises(CrystalError, match="no tool call"):
        validate(CrystalResponse(content="hello"), CrystalRequest([], tool_choice="required"))


def test_usage_adds_up() -> None:
    assert Usage(1, 2, 3) + Usage(10, 20, 30) == Usage(11, 22, 33)
