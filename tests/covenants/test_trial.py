"""Trying routes on an entry, without any journal."""

from __future__ import annotations

import msgspec
import pytest

from branches.agents.entries import AgentPrompt, AgentToolFault
from branches.chat import ChatEfferentDraft
from covenants import try_routes
from tests.covenants.configs import configured, edited

CONDITIONAL = edited(
    {
        "  - AgentResponse -> ChatEfferentDraft\n": (
            "  - route: AgentResponse -> ChatEfferentDraft\n    when: origin == 'discord'\n"
            "  - route: AgentResponse -> ChatEfferentDraft\n    name: else\n    when: origin != 'discord'\n"
            "    map: {text: \"text + '!'\"}\n"
        )
    }
)


def test_every_route_of_the_kind_is_tried() -> None:
    first, second = try_routes(configured(CONDITIONAL), "AgentResponse", {"sender": "a", "text": "b"}, origin="console")
    assert first.entries == ()
    assert second.entries == (ChatEfferentDraft(sender="a", text="b!"),)


def test_a_failure_shows_the_fault_that_goes_home() -> None:
    (tried,) = try_routes(configured(), "AgentToolCall", {"correlation_id": "c", "tool_name": "fs.rm", "arguments": {}})
    assert tried.entries == ()
    assert tried.failure is not None
    assert isinstance(tried.fault, AgentToolFault)
    assert tried.fault.code == "unknown_tool"


def test_fields_that_the_kind_does_not_have_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="sender"):
        try_routes(configured(), "ChatAfferent", {"text": "b"})
    with pytest.raises(KeyError, match="Unheard"):
        try_routes(configured(), "Unheard", {})


def test_the_instance_may_be_named() -> None:
    (tried,) = try_routes(configured(), "ChatAfferent", {"sender": "a", "text": "b"}, instance="chat")
    assert tried.entries == (AgentPrompt(sender="a", text="b"),)
    with pytest.raises(KeyError):
        try_routes(configured(), "ChatAfferent", {"sender": "a", "text": "b"}, instance="agents")
