"""Gemini's format: requests, answers and streams. Pure; the SDK and its connection are in `gemini`."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from branches.agents.crystal import CrystalError, CrystalRequest, CrystalResponse, Finish, ToolCall, Usage
from leaves.crystals._hearing import Piece
from leaves.crystals._names import Names
from leaves.crystals._transcript import Said, transcript

_STRANGER: Final = b"skip_thought_signature_validator"
"""What Google takes in the place of a signature for calls that one of its models did not make."""
_REFUSED: Final = (
    *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"),
    *("ESCALATION", "PUP_LIMITED_DISABLED", "MODEL_ARMOR"),
)
_LENGTHS: Final = ("MAX_TOKENS", "CONTINUATION")
_MODES: Final = {"required": "ANY", "none": "NONE"}
_encoder = msgspec.json.Encoder(order="sorted")


class _Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of an utterance: so many characters, or a call with the id that it had; and its signature."""

    text: int | None = None
    call: str | None = None
    signature: str | None = None


def contents(request: CrystalRequest, model: str, names: Names) -> tuple[str | None, list[dict[str, Any]]]:
    """The system instruction, and the conversation. `model` is `provider/model`: only its own signatures go back."""
    said = transcript(request.messages)
    made: list[dict[str, Any]] = []
    for exchange in said.exchanges:
        parts: list[dict[str, Any]] = [
            {
                "function_response": {
                    "id": result.id,
                    "name": names.there(result.gate),
                    "response": {"error" if result.is_error else "output": result.content},
                }
            }
            for result in exchange.heard.results
        ]
        parts += (
            {"inline_data": {"mime_type": image.media_type, "data": image.body}} for image in exchange.heard.images
        )
        made.append({"role": "user", "parts": [*parts, *({"text": text} for text in exchange.heard.texts)]})
        if exchange.said is not None:
            made.append({"role": "model", "parts": _said(exchange.said, model, names)})
    return "\n\n".join(said.system) or None, made


def tools(request: CrystalRequest, names: Names) -> dict[str, Any]:
    """The part of the configuration that offers gates."""
    if not request.tools:
        return {}
    declared = [
        {"name": names.there(tool.name), "description": tool.description, "parameters_json_schema": tool.parameters}
        for tool in request.tools
    ]
    mode = _MODES.get(request.tool_choice, "AUTO")
    return {
        "tools": [{"function_declarations": declared}],
        "tool_config": {"function_calling_config": {"mode": mode}},
        "automatic_function_calling": {"disable": True},
    }


def _said(said: Said, model: str, names: Names) -> list[dict[str, Any]]:
    marks = _marks(said, model)
    if marks is None:
        calls = [_call(call, names) for call in said.tool_calls]
        if calls:
            calls[0]["thought_signature"] = _STRANGER
        return [*([{"text": said.content}] if said.content else []), *calls]
    parts, rest, waiting = list[dict[str, Any]](), said.content or "", iter(said.tool_calls)
    for mark in marks:
        if mark.text is not None:
            part: dict[str, Any] = {"text": rest[: mark.text]}
            rest = rest[mark.text :]
        else:
            part = _call(next(waiting), names)
        if mark.signature is not None:
            part["thought_signature"] = base64.b64decode(mark.signature)
        parts.append(part)
    return parts


def _marks(said: Said, model: str) -> tuple[_Mark, ...] | None:
    """How the utterance was made up, where it is this model's own."""
    if said.opaque is None or said.model != model:
        return None
    try:
        marks = msgspec.json.decode(said.opaque, type=tuple[_Mark, ...])
    except msgspec.DecodeError:
        return None
    texts, calls = sum(mark.text or 0 for mark in marks), sum(mark.text is None for mark in marks)
    return marks if texts == len(said.content or "") and calls == len(said.tool_calls) else None


def _call(call: ToolCall, names: Names) -> dict[str, Any]:
    try:
        given = msgspec.json.decode(call.arguments)
    except msgspec.DecodeError:
        given = call.arguments
    arguments = cast("dict[str, Any]", given) if isinstance(given, dict) else {"unreadable": given}
    return {"function_call": {"id": call.id, "name": names.there(call.gate), "args": arguments}}


class Assembling:
    """The chunks of an answer, put together; one that comes in one piece is a single chunk."""

    def __init__(self, names: Names, model: str) -> None:
        self._names, self._model = names, model
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[ToolCall] = []
        self._marks: list[_Mark] = []
        self._usage: Mapping[str, Any] = {}
        self._blocked: str | None = None
        self._finish: str | None = None
        self._finish_message = ""

    @property
    def complete(self) -> bool:
        """Whether the answer has come to its end."""
        return self._finish is not None or self._blocked is not None

    def take(self, chunk: Mapping[str, Any]) -> Piece:
        """Add a chunk; gives what it brought."""
        self._usage = chunk.get("usage_metadata") or self._usage
        feedback = cast("Mapping[str, Any]", chunk.get("prompt_feedback") or {})
        if feedback.get("block_reason"):
            self._blocked = _word(feedback["block_reason"])
        candidates: list[dict[str, Any]] = chunk.get("candidates") or [{}]
        candidate = candidates[0]
        if candidate.get("finish_reason"):
            self._finish = _word(candidate["finish_reason"])
            self._finish_message = candidate.get("finish_message") or ""
        parts = cast("Mapping[str, Any]", candidate.get("content") or {}).get("parts") or ()
        pieces = [self._take(cast("Mapping[str, Any]", part)) for part in parts]
        return Piece("".join(piece.text for piece in pieces), "".join(piece.thought for piece in pieces))

    def _take(self, part: Mapping[str, Any]) -> Piece:
        given = part.get("thought_signature")
        signature = base64.b64encode(given).decode() if given else None
        if part.get("thought"):
            self._thoughts.append(part.get("text") or "")
            return Piece(thought=self._thoughts[-1])
        call = cast("Mapping[str, Any] | None", part.get("function_call"))
        if call is not None:
            id = call.get("id") or f"call_{len(self._calls) + 1}"
            arguments = msgspec.json.encode(call.get("args") or {}).decode()
            self._calls.append(ToolCall(id, self._names.back(call.get("name") or ""), arguments))
            self._marks.append(_Mark(call=id, signature=signature))
            return Piece()
        text = part.get("text") or ""
        last = self._marks[-1] if self._marks else None
        if last is not None and last.text is not None and last.signature is None and (text or signature):
            self._marks[-1] = _Mark(text=last.text + len(text), signature=signature)
        elif text:
            self._marks.append(_Mark(text=len(text), signature=signature))
        if text:
            self._texts.append(text)
        return Piece(text)

    def response(self) -> CrystalResponse:
        """All of it. Raises `CrystalError`: `refused`, or `invalid_response` where nothing was said."""
        content, usage = "".join(self._texts), self._used()
        if self._blocked is not None or self._finish in _REFUSED:
            why = self._finish_message or self._blocked or self._finish
            raise CrystalError("refused", f"the provider's filter stopped the answer: {why}", usage=usage)
        if not content and not self._calls:
            cut = self._finish in _LENGTHS
            hint = "the answer was cut off before it said anything: allow more with `max_tokens`"
            why = hint if cut else f"the model answered nothing ({self._finish})"
            raise CrystalError("invalid_response", why, usage=usage)
        signed = any(mark.signature for mark in self._marks)
        return CrystalResponse(
            content=content or None,
            tool_calls=tuple(self._calls),
            usage=usage,
            thinking="".join(self._thoughts) or None,
            model=self._model,
            opaque=_encoder.encode(self._marks).decode() if signed else None,
            finish=self._ended(),
        )

    def _used(self) -> Usage:
        usage = self._usage
        return Usage(
            prompt=usage.get("prompt_token_count") or 0,
            completion=(usage.get("candidates_token_count") or 0) + (usage.get("thoughts_token_count") or 0),
            cached=usage.get("cached_content_token_count") or 0,
        )

    def _ended(self) -> Finish:
        """Of calls too it is said that the model has stopped."""
        if self._finish == "STOP":
            return "tool_calls" if self._calls else "stop"
        return "length" if self._finish in _LENGTHS else "other"


def _word(value: Any) -> str:
    """A reason by its name, however the SDK has it."""
    return str(getattr(value, "value", value))
