"""What an episode's calls come to, as the engine's steps: an utterance, an ending, what a gate or code gave."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET

from branches.agents.code import CodeRun
from branches.agents.crystal import Finish, ToolCall, Usage, is_cut
from branches.agents.entries import AgentResponse, AgentToolFault, AgentToolResult
from branches.agents.internal import CodeReturned, ContextFolded, EntityReturned, GateReturned
from branches.agents.naming import CODE, CRYSTAL, FOLD, LOOP
from policies import InvalidPayload, Step, action_result, error_result

UTTERANCE: Final = "utterance"
_CUT: Final = {
    "length": "(The answer was cut off here: it reached its limit of tokens.)",
    "other": "(The answer was cut off here by its provider.)",
}
FOLDED_FIELDS: Final = ("turn", "through", "kept", "context_limit", "summary", "usage")
GateOutcome = AgentToolResult | AgentToolFault | GateReturned | EntityReturned


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """The payload of an utterance step.

    `first` holds the arguments of its first tool call, where that passes a gate that another branch serves, and
    nothing is to happen before: then the utterance is written as that very call. `thought_stream` is where
    `thinking` came in pieces, if it did.
    """

    content: str | None
    tool_calls: tuple[ToolCall, ...]
    usage: Usage
    duration_ms: float
    thinking: str | None = None
    thought_stream: str | None = None
    first: dict[str, Any] | None = None
    model: str | None = None
    opaque: str | None = None
    finish: Finish | None = None


def last_words(said: Said) -> dict[str, Any]:
    """The text that ends an episode, as the fields `text` and `answer` of its ending.

    People are told of one that was cut off that it was; the answer itself is what the crystal said.
    """
    text = said.content or ""
    if not is_cut(said.finish):
        return {"text": text}
    return {"text": f"{text}\n\n{_CUT[said.finish or 'other']}", "answer": text}


def ending(text: str, how: str, ward: str | None = None, answer: Any = UNSET) -> Step:
    """How an episode ended, as the step that becomes its `AgentResponse`. `answer` is one that `text` is not."""
    told = {} if answer is UNSET else {"answer": answer}
    return action_result(LOOP, {"text": text, "ending": how, "ward": ward, **told})


def answer_of(entry: AgentResponse | EntityReturned) -> Any:
    """What an episode came to."""
    return entry.text if entry.answer is UNSET else entry.answer


def ending_of(entry: AgentResponse | EntityReturned) -> Step:
    """The same, as it is recorded."""
    return ending(entry.text, entry.ending, entry.ward, entry.answer)


def failure(code: str, message: str, duration_ms: float, usage: Usage) -> Step:
    """Why the crystal gave no answer, and the tokens of one that was of no use."""
    payload: dict[str, Any] = {"error": True, "code": code, "message": message, "duration_ms": duration_ms}
    payload["usage"] = msgspec.to_builtins(usage)
    return action_result(CRYSTAL, payload)


def fold_step(folded: ContextFolded) -> Step:
    """What a fold came to."""
    fields = msgspec.to_builtins(folded)
    return action_result(FOLD, {name: fields[name] for name in FOLDED_FIELDS if name in fields})


def utterance(said: Said) -> Step:
    """What the crystal said."""
    return Step("", CRYSTAL, UTTERANCE, msgspec.to_builtins(said))


def code_step(run: CodeRun) -> Step:
    """What code came to."""
    return action_result(CODE, msgspec.structs.asdict(run) | {"refusals": msgspec.to_builtins(run.refusals)})


def code_run_of(entry: CodeReturned) -> CodeRun:
    """What code came to, as it is recorded."""
    return CodeRun(
        ending=entry.ending,
        output=entry.output,
        value=entry.value,
        error=entry.error,
        restored=entry.restored,
        refusals=entry.refusals,
    )


def gate_outcome(entry: GateOutcome) -> Step:
    """What came of a gate call."""
    if isinstance(entry, EntityReturned):
        return ending_of(entry)
    if isinstance(entry, AgentToolFault):
        return error_result("gate", entry.code, entry.error)
    if isinstance(entry, GateReturned) and entry.code is not None:
        return error_result("gate", entry.code, entry.error or "")
    try:
        return action_result("gate", {"result": entry.result})
    except InvalidPayload as error:
        return error_result("gate", "bad_result", f"the gate answered with something unreadable: {error.reason}")
