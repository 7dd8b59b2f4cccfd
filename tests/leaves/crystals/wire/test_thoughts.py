"""Thoughts: in pieces and whole, by all their names, and never what is signed or redacted."""

from __future__ import annotations

import pytest

from branches.agents.crystal import (
    CrystalRequest,
    Message,
)
from coven.testing.providers import ProviderServer, Reply
from leaves.crystals._anthropic import Assembling, build, read
from leaves.crystals._completions import Assembling as Completion
from leaves.crystals._completions import read as read_completion
from leaves.crystals._names import Names
from leaves.crystals._remote import RemoteCrystal
from tests.leaves.crystals.providers import Provider
from tests.leaves.crystals.wire.conversation import ASKED, then

THOUGHT = "First a,\nthen b. \u2615\n\nThen I tell.\n\nBriefly."


async def test_a_thought_that_comes_in_pieces_is_the_one_that_comes_whole(
    crystal: RemoteCrystal, provider: Provider, server: ProviderServer
):
    if not provider.thinks:
        pytest.skip("this one lets no thoughts be seen")
    server.replies = [Reply(thinking=THOUGHT, text="Both."), Reply(thinking=THOUGHT, text="Both.")]
    heard: list[tuple[str, str]] = []
    streamed = await crystal.invoke(
        CrystalRequest(ASKED), lambda text: heard.append(("text", text)), lambda text: heard.append(("thought", text))
    )
    assert (await crystal.invoke(CrystalRequest(ASKED))).thinking == streamed.thinking == THOUGHT
    kinds = [kind for kind, _ in heard]
    assert kinds == sorted(kinds, reverse=True), "the thought comes before what it led to"
    assert kinds.count("thought") > 2
    assert "".join(text for kind, text in heard if kind == "thought") == THOUGHT
    assert "".join(text for kind, text in heard if kind == "text") == "Both."


async def test_who_hears_only_the_text_hears_nothing_of_a_thought(crystal: RemoteCrystal, server: ProviderServer):
    server.replies = [Reply(thinking=THOUGHT, text="Both.")]
    pieces: list[str] = []
    await crystal.invoke(CrystalRequest(ASKED), pieces.append)
    assert "".join(pieces) == "Both."


def test_what_is_signed_or_redacted_is_never_told():
    """Anthropic's stream: the loopback server redacts nothing."""
    assembling = Assembling()
    blocks: list[tuple[dict[str, object], list[dict[str, object]]]] = [
        (
            {"type": "thinking", "thinking": "", "signature": ""},
            [
                {"type": "thinking_delta", "thinking": "One"},
                {"type": "thinking_delta", "thinking": "."},
                {"type": "signature_delta", "signature": "c2lnbmVk"},
            ],
        ),
        ({"type": "redacted_thinking", "data": "c2VjcmV0"}, []),
        ({"type": "thinking", "thinking": ""}, [{"type": "thinking_delta", "thinking": "Two."}]),
        ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "Yes."}]),
    ]
    events: list[dict[str, object]] = []
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        events.append({"type": "content_block_stop", "index": index})
    events += [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}]
    pieces = [assembling.take(event) for event in events]
    response = read(assembling.message, build(CrystalRequest(ASKED), "anthropic/m"), "anthropic/m")
    assert "".join(piece.thought for piece in pieces) == response.thinking == "One.\n\nTwo."
    assert "".join(piece.text for piece in pieces) == response.content == "Yes."


@pytest.mark.parametrize(
    "deltas",
    [
        [{"reasoning_content": "Let "}, {"reasoning_content": "me see."}, {"content": "Yes."}],
        [{"reasoning": "Let "}, {"reasoning": "me see."}, {"content": "Yes."}],
        [
            {"reasoning": "Let ", "reasoning_content": "Let "},
            {"reasoning": "me see.", "reasoning_content": "me see."},
            {"content": "Yes.", "reasoning_content": None},
        ],
    ],
    ids=["reasoning_content", "reasoning", "both"],
)
def test_completions_name_a_thought_in_two_ways_and_it_is_told_once(deltas: list[dict[str, object]]):
    assembling = Completion()
    pieces = [assembling.take({"choices": [{"delta": delta}]}) for delta in deltas]
    assembling.take({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    response = read_completion(assembling.completion, Names(()), "local/m")
    assert "".join(piece.thought for piece in pieces) == response.thinking == "Let me see."
    assert "".join(piece.text for piece in pieces) == response.content == "Yes."


async def test_a_thought_that_nobody_may_read_goes_back_as_it_came():
    """Anthropic's safety systems encrypt some; the loopback server has none."""
    block = {"type": "redacted_thinking", "data": "c2VjcmV0"}
    built = build(CrystalRequest(ASKED), "anthropic/m")
    message = {"content": [block, {"type": "text", "text": "Yes."}], "stop_reason": "end_turn"}
    response = read(message, built, "anthropic/m")
    again = build(CrystalRequest(then(ASKED, response, Message("user", "And?"))), "anthropic/m", cache=False)
    assert again.body["messages"][1]["content"] == [block, {"type": "text", "text": "Yes."}]
    elsewhere = build(CrystalRequest(then(ASKED, response, Message("user", "And?"))), "anthropic/other", cache=False)
    assert elsewhere.body["messages"][1]["content"] == [{"type": "text", "text": "Yes."}]
