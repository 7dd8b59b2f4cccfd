"""Approvals: what a person is asked before a gate call is made, and what their answer means for that very call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from branches.agents.gate import thaw
from branches.agents.naming import APPROVAL, approval_key
from branches.visible import visible
from policies import Action, Context

YES: Final = "yes"
NO: Final = "no"
_SHOWN_CHARS: Final = 2_000
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


class Answer(msgspec.Struct, frozen=True):
    """What a person answered, or why nobody could be asked: then it is `by` nobody."""

    answer: str
    by: str

    @property
    def approves(self) -> bool:
        """Whether somebody says that the call may be made."""
        return bool(self.by) and self.answer.strip().lower() == YES


async def ask_approval(
    ctx: Context, key: str, call: str, gate: str, arguments: Mapping[str, Any], approvers: Sequence[str]
) -> Answer:
    """Whether this gate call may be made with these arguments. Waits for days if need be, and over restarts.

    The question carries the call and its arguments, and the answer counts for no other. An answer by somebody who may
    not give it is recorded, and the question is asked again; not so where nobody can be asked.
    """
    shown = visible(_ENCODER.encode(thaw(arguments)).decode(), _SHOWN_CHARS)
    question = f"May I call {gate} with {shown}?"
    return await _ask(ctx, key, {"call": call, "question": question, "choices": (YES, NO)}, gate, arguments, approvers)


async def ask_person(
    ctx: Context, key: str, gate: str, arguments: Mapping[str, Any], approvers: Sequence[str]
) -> Answer:
    """What a person answers to the entity's own question."""
    asked = {"call": None, "question": arguments["question"], "choices": tuple(arguments.get("choices") or ())}
    return await _ask(ctx, key, asked, gate, {}, approvers)


def bad_question(arguments: Mapping[str, Any]) -> str | None:
    """Why this is no question that a person can be asked; None if it is one."""
    question, choices = arguments.get("question"), arguments.get("choices") or ()
    if not isinstance(question, str) or not question.strip():
        return "bad_arguments: `question` is required, a text"
    if isinstance(choices, str) or not all(isinstance(choice, str) and choice.strip() for choice in choices):
        return "bad_arguments: `choices` is a list of texts"
    return None


async def _ask(
    ctx: Context,
    key: str,
    asked: Mapping[str, Any],
    gate: str,
    arguments: Mapping[str, Any],
    approvers: Sequence[str],
) -> Answer:
    payload = {**asked, "gate": gate, "arguments": arguments, "approvers": tuple(approvers)}
    attempt = 0
    while True:
        attempt += 1
        (step,) = await ctx.call(Action(APPROVAL, payload), key=approval_key(key, attempt))
        # Whatever else somebody sent under the question's id is no approval.
        answer = Answer(step.payload.get("answer", ""), step.payload.get("by", ""))
        if not approvers or not answer.by or answer.by in approvers:
            return answer
