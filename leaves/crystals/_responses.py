"""OpenAI's Responses format: requests, answers and streams. Pure; the SDK and its connection are in `openai`.

It has no stop sequences, so texts are cut here. What the model writes behind one is read and shown to nobody, and not
cut off with the connection: a provider tells the tokens of an answer with its end alone, and a budget that does not
learn what was paid for, its hidden reasoning above all, bounds nothing. `max_tokens` bounds what is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from branches.agents.crystal import CrystalError, CrystalRequest, CrystalResponse, Finish, ToolCall, Usage
from leaves.crystals._failures import reported
from leaves.crystals._hearing import Piece, Thoughts
from leaves.crystals._images import data_url
from leaves.crystals._kept import Block, keep, restore
from leaves.crystals._names import Names
from leaves.crystals._stopping import Stopping, cut
from leaves.crystals._transcript import Heard, Said, transcript

TITLE: Final = "OpenAI"
_ENDS: Final = ("response.completed", "response.incomplete", "response.failed")
_REASONING: Final = ("type", "id", "summary", "content", "encrypted_content")


def build(request: CrystalRequest, model: str, names: Names) -> dict[str, Any]:
    """Instructions, input and tools. `model` is `provider/model`: only its own reasoning is sent back."""
    said = transcript(request.messages)
    items: list[dict[str, Any]] = []
    for exchange in said.exchanges:
        items += (
            {"type": "function_call_output", "call_id": result.id, "output": result.content}
            for result in exchange.heard.results
        )
        if exchange.heard.texts:
            items.append({"role": "user", "content": _heard(exchange.heard)})
        if exchange.said is not None:
            items += _said(exchange.said, model, names)
    body: dict[str, Any] = {"input": items}
    if said.system:
        body["instructions"] = "\n\n".join(said.system)
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": names.there(tool.name),
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": False,
            }
            for tool in request.tools
        ]
        body["tool_choice"] = request.tool_choice
    return body


def _heard(heard: Heard) -> Any:
    text = "\n\n".join(heard.texts)
    if not heard.images:
        return text
    images = ({"type": "input_image", "image_url": data_url(image), "detail": "auto"} for image in heard.images)
    return [*images, {"type": "input_text", "text": text}]


def _said(said: Said, model: str, names: Names) -> list[dict[str, Any]]:
    calls = [
        {"type": "function_call", "call_id": call.id, "name": names.there(call.gate), "arguments": call.arguments}
        for call in said.tool_calls
    ]
    restored = restore(said, model)
    if restored is None:
        return [*([_message(said.content)] if said.content else []), *calls]
    waiting = iter(calls)
    items = (_message(each) if isinstance(each, str) else each for each in restored)
    return [next(waiting) if item is None else item for item in items]


def _message(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def read(response: Mapping[str, Any], names: Names, model: str, stops: Sequence[str] = ()) -> CrystalResponse:
    """An answer as a response: each message up to the first of these stop sequences, and nothing behind one.

    Raises `CrystalError`: `refused`, `invalid_response`, or what the provider reports.
    """
    error = response.get("error")
    if error:
        raise reported(TITLE, error.get("code") or "", error.get("message") or "")
    items: list[dict[str, Any]] = list(response.get("output") or ())
    content, refusal, calls, thoughts, stopped = "", "", list[ToolCall](), list[str](), False
    kept: list[Block] = []
    for item in items:
        type = item.get("type")
        if type == "message":
            parts: list[dict[str, Any]] = item.get("content") or []
            whole = "".join(part.get("text") or "" for part in parts if part.get("type") == "output_text")
            text = cut(whole, stops)
            refusal += "".join(part.get("refusal") or "" for part in parts if part.get("type") == "refusal")
            content += text
            kept += [len(text)] if text else []
            if text != whole:
                stopped = True
                break
        elif type == "function_call":
            arguments = item.get("arguments") or "{}"
            calls.append(ToolCall(item.get("call_id") or "", names.back(item.get("name") or ""), arguments))
            kept.append(None)
        elif type == "reasoning":
            thoughts += [part.get("text") or "" for part in item.get("summary") or ()]
            kept.append({name: item[name] for name in _REASONING if item.get(name) is not None})
    reason = cast("Mapping[str, Any]", response.get("incomplete_details") or {}).get("reason")
    usage = _usage(response.get("usage") or {})
    if reason == "content_filter" or refusal:
        why = refusal or "the content filter stopped the answer"
        raise CrystalError("refused", f"the model declined: {why}", usage=usage)
    if not content and not calls:
        raise CrystalError("invalid_response", _silent(reason, stopped=stopped), usage=usage)
    while kept and isinstance(kept[-1], dict):
        kept.pop()  # reasoning is taken back only with what it led to
    return CrystalResponse(
        content=content or None,
        tool_calls=tuple(calls),
        usage=usage,
        thinking="\n\n".join(filter(None, thoughts)) or None,
        model=model,
        opaque=keep(kept) if _is_readable(kept) else None,
        finish=_finish(None if stopped else reason, calls=bool(calls)),
    )


def _finish(reason: object, *, calls: bool) -> Finish:
    """Why it ends; what was cut off behind a stop sequence lacks nothing."""
    if reason is None:
        return "tool_calls" if calls else "stop"
    return "length" if reason == "max_output_tokens" else "other"


def _silent(reason: object, *, stopped: bool) -> str:
    if stopped:
        return "the answer began with a stop sequence, so nothing is left of it"
    return "the answer was cut off before it said anything: allow more with `max_tokens`" if reason else "no answer"


def _is_readable(kept: list[Block]) -> bool:
    """Reasoning is of use only encrypted, where nothing is stored by the provider."""
    return all("encrypted_content" in block for block in kept if isinstance(block, dict))


def _usage(usage: Mapping[str, Any]) -> Usage:
    details = cast("Mapping[str, Any]", usage.get("input_tokens_details") or {})
    return Usage(
        prompt=usage.get("input_tokens") or 0,
        completion=usage.get("output_tokens") or 0,
        cached=details.get("cached_tokens") or 0,
    )


class Assembling:
    """A stream's events: what people may hear of each, and the answer that the last one holds.

    A text is cut as `read` does it: what may begin a stop sequence is held back until it is known not to be one.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self.response: dict[str, Any] | None = None
        self._stops = stops
        self._thoughts = Thoughts()
        self._message: int | None = None
        self._text = Stopping(stops)

    def __repr__(self) -> str:
        return f"<Assembling {'whole' if self.response is not None else 'so far'} {self._text!r}>"

    def take(self, event: Any) -> Piece:
        """Take an event of the SDK; gives what it brought. Raises `CrystalError` for one that reports an error."""
        if event.type == "error":
            raise reported(TITLE, event.code or "", event.message)
        if event.type in _ENDS:
            self.response = event.response.model_dump(exclude_none=True, warnings=False)
            return Piece(self._text.end())
        if self._text.stopped:
            return Piece()
        if event.type == "response.output_text.delta":
            before = self._begin(event.output_index)
            return Piece(before + self._text.take(event.delta))
        if event.type == "response.reasoning_summary_text.delta":
            return Piece(thought=self._thoughts.take((event.output_index, event.summary_index), event.delta))
        if event.type == "response.output_item.done" and event.output_index == self._message:
            return Piece(self._text.end())
        return Piece()

    def _begin(self, message: int) -> str:
        """Another message begins a text of its own: gives the end of the one before."""
        if message == self._message:
            return ""
        before = self._text.end()
        self._message = message
        if not self._text.stopped:
            self._text = Stopping(self._stops)
        return before
