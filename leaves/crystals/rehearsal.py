"""The rehearsal crystal: no model, a few plain phrases, real gate calls. It needs no key and is deterministic."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from branches.agents.context import NUDGE
from branches.agents.crystal import CrystalRequest, CrystalResponse, Message, ToolCall
from branches.agents.gates import DONE, EXECUTE
from leaves.crystals._coding import error_out_of_code, gates_of, in_code, out_of_code
from leaves.crystals._phrases import LIST, READ, RUN, WRITE, Wish, understand
from leaves.crystals._telling import tell

_EXAMPLES = (
    (LIST, "what files are here?"),
    (READ, "read notes.md"),
    (WRITE, "write 'milk' to list.txt"),
    (WRITE, "overwrite list.txt with 'eggs'"),
    (RUN, "run ls -l"),
)


class RehearsalCrystal:
    """Makes gate calls out of phrases, and a readable answer out of their results.

    What it does not understand it answers with what it does. It calls no gate that it is not offered, and keeps
    nothing between two requests.
    """

    def __init__(self, options: None = None) -> None:
        del options  # it has none; every crystal is made with its options

    def __repr__(self) -> str:
        return "<RehearsalCrystal>"

    async def invoke(self, request: CrystalRequest, on_text: Callable[[str], None] | None = None) -> CrystalResponse:
        """See `Crystal.invoke`. Never raises."""
        response = _respond(request)
        if on_text is not None and response.content:
            for word in re.findall(r"\S+\s*|\s+", response.content):
                on_text(word)
        return response


def _respond(request: CrystalRequest) -> CrystalResponse:
    messages = request.messages
    asked = _last(messages, "user")
    offered = gates_of(request) if request.tool_choice != "none" else set[str]()
    text = (messages[asked].content or "") if asked is not None else ""
    answered = _last(messages, "assistant")
    if answered is not None and asked is not None and answered > asked:
        return _say(_report(messages, answered), request, offered)
    if text == NUDGE and answered is not None and DONE.name in offered:
        return _finish(messages[answered].content or "", request)
    wishes = understand(text)
    if wishes is None:
        return _say(_help(offered), request, offered)
    missing = list(dict.fromkeys(wish.gate for wish in wishes if wish.gate not in offered))
    if missing:
        return _say(
            f"I would call {' and '.join(missing)} for that, but it is not among my gates here.", request, offered
        )
    return _calling(*(_call(request, n, wish) for n, wish in enumerate(wishes, 1)))


def _say(text: str, request: CrystalRequest, offered: set[str]) -> CrystalResponse:
    """Text, or `done` with that text where a gate call is required."""
    if request.tool_choice == "required" and DONE.name in offered:
        return _finish(text, request)
    return CrystalResponse(content=text, finish="stop")


def _finish(answer: str, request: CrystalRequest) -> CrystalResponse:
    return _calling(_call(request, 1, Wish(DONE.name, {"answer": answer})))


def _calling(*calls: ToolCall) -> CrystalResponse:
    return CrystalResponse(tool_calls=calls, finish="tool_calls")


def _call(request: CrystalRequest, number: int, wish: Wish) -> ToolCall:
    id = f"rehearsal_{len(request.messages)}_{number}"
    wish = in_code(request, wish)
    return ToolCall(id, wish.gate, msgspec.json.encode(wish.arguments).decode())


def _report(messages: Sequence[Message], utterance: int) -> str:
    """What came of the calls of this utterance."""
    results = {message.tool_call_id: message for message in messages[utterance + 1 :]}
    parts: list[str] = []
    for call in messages[utterance].tool_calls:
        result = results.get(call.id)
        content = "Error: no_result: there is no result" if result is None else result.content or ""
        is_error = result is None or result.is_error
        if is_error and call.gate == EXECUTE:
            content = error_out_of_code(content)
        wish = out_of_code(call.gate, msgspec.json.decode(call.arguments))
        parts.append(tell(wish.gate, wish.arguments, content, is_error=is_error))
    return "\n\n".join(parts) or "There is nothing to tell."


def _help(offered: set[str]) -> str:
    known = [f"  {phrase}" for gate, phrase in _EXAMPLES if gate in offered]
    first = "I am the rehearsal crystal: no model, just a few phrases that make real gate calls."
    if not known:
        return f"{first} I have no gates here that I know, so I can only say hello."
    return "\n".join([f"{first} Try:", *known, "Several at once work too: read a.txt and b.txt, and then run pwd"])


def _last(messages: Sequence[Message], role: str) -> int | None:
    """The index of the newest message of a role."""
    return next((n for n in range(len(messages) - 1, -1, -1) if messages[n].role == role), None)
