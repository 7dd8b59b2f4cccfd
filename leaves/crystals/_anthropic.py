"""Anthropic's Messages format: requests, answers and streams. Pure; the SDK and its connection are in `anthropic`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from branches.agents.crystal import CrystalError, CrystalRequest, CrystalResponse, Finish, ToolCall, Usage
from leaves.crystals._hearing import Piece, Thoughts
from leaves.crystals._images import encoded
from leaves.crystals._kept import Block, keep, restore
from leaves.crystals._names import Names
from leaves.crystals._transcript import Exchange, Said, transcript

_EPHEMERAL: Final = {"type": "ephemeral"}
_USED: Final = ("text", "tool_use", "thinking", "redacted_thinking")
_FINISHES: Final[Mapping[str, Finish]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
_encoder = msgspec.json.Encoder(order="sorted")


class Built(msgspec.Struct, frozen=True):
    """The part of a request that is the conversation, and the digest of it."""

    body: dict[str, Any]
    names: Names
    digest: str


def build(request: CrystalRequest, model: str, *, cache: bool = True) -> Built:
    """System, tools and messages. `model` is `provider/model`: only its own thoughts are sent back.

    Thoughts are signed together with all that stood before them, so they are left out where that has changed.
    With `cache`, the provider is asked to keep what stands before the conversation, and the conversation so far.
    """
    said = transcript(request.messages)
    names = Names(tool.name for tool in request.tools)
    system = [{"type": "text", "text": text} for text in said.system if text.strip()]
    tools = [
        {"name": names.there(tool.name), "description": tool.description, "input_schema": tool.parameters}
        for tool in request.tools
    ]
    seen = hashlib.blake2b(_encoder.encode([system, tools]), digest_size=12)
    messages: list[dict[str, Any]] = []
    for exchange in said.exchanges:
        messages.append({"role": "user", "content": _heard(exchange)})
        seen.update(_encoder.encode(messages[-1]))
        if exchange.said is not None:
            messages.append({"role": "assistant", "content": _said(exchange.said, model, seen.hexdigest(), names)})
            seen.update(_encoder.encode(messages[-1]))
    body: dict[str, Any] = {"messages": messages}
    if system:
        body["system"] = system
    if tools:
        body["tools"] = tools
    if tools and request.tool_choice != "auto":
        body["tool_choice"] = {"type": {"required": "any", "none": "none"}[request.tool_choice]}
    if request.sampling.stop:
        body["stop_sequences"] = list(request.sampling.stop)
    if cache:
        _mark(body)
    return Built(body, names, seen.hexdigest())


def _mark(body: dict[str, Any]) -> None:
    """Where what is cached ends: the stable beginning, and the newest message."""
    stable: list[dict[str, Any]] = body.get("system") or body.get("tools") or []
    for blocks in (stable[:1] if "system" in body else stable[-1:], body["messages"][-1]["content"][-1:]):
        for block in blocks:
            block["cache_control"] = _EPHEMERAL


def _heard(exchange: Exchange) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for result in exchange.heard.results:
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.id}
        if result.content.strip():
            block["content"] = result.content
        if result.is_error:
            block["is_error"] = True
        blocks.append(block)
    images = (
        {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": encoded(image)}}
        for image in exchange.heard.images
    )
    return [*blocks, *images, *({"type": "text", "text": text} for text in exchange.heard.texts)]


def _said(said: Said, model: str, prefix: str, names: Names) -> list[dict[str, Any]]:
    calls = [
        {"type": "tool_use", "id": call.id, "name": names.there(call.gate), "input": arguments_of(call)}
        for call in said.tool_calls
    ]
    restored = restore(said, model, prefix)
    if restored is None:
        return [*([{"type": "text", "text": said.content}] if said.content else []), *calls]
    waiting = iter(calls)
    spoken = (each for each in restored if not isinstance(each, str) or each.strip())
    blocks = ({"type": "text", "text": each} if isinstance(each, str) else each for each in spoken)
    return [next(waiting) if block is None else block for block in blocks]


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """The arguments as an object, which providers insist on; what is none is shown as what it is."""
    try:
        found = msgspec.json.decode(call.arguments)
    except msgspec.DecodeError:
        found = call.arguments
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {"unreadable": found}


def read(message: Mapping[str, Any], built: Built, model: str) -> CrystalResponse:
    """An answer as a response. Raises `CrystalError`: `refused`, or `invalid_response` where nothing was said."""
    blocks: list[dict[str, Any]] = list(message.get("content") or ())
    if not any(block["text"].strip() for block in blocks if block.get("type") == "text"):
        blocks = [block for block in blocks if block.get("type") != "text"]
    texts = [block["text"] for block in blocks if block.get("type") == "text"]
    calls = tuple(_call(block, built.names) for block in blocks if block.get("type") == "tool_use")
    thoughts = [block.get("thinking") or "" for block in blocks if block.get("type") == "thinking"]
    content, usage = "".join(texts), _usage(message.get("usage") or {})
    reason = message.get("stop_reason")
    if reason == "refusal":
        details = cast("Mapping[str, Any]", message.get("stop_details") or {})
        why = details.get("explanation") or details.get("category") or "it does not say why"
        raise CrystalError("refused", f"the model declined: {why}", usage=usage)
    if not content and not calls:
        raise _silent(reason, usage)
    kept = [_kept(block) for block in blocks if block.get("type") in _USED and block.get("text") != ""]
    return CrystalResponse(
        content=content or None,
        tool_calls=calls,
        usage=usage,
        thinking="\n\n".join(filter(None, thoughts)) or None,
        model=model,
        opaque=keep(kept, built.digest),
        finish=_FINISHES.get(reason or "end_turn", "other"),
    )


def _kept(block: dict[str, Any]) -> Block:
    if block["type"] == "text":
        return len(block["text"])
    return None if block["type"] == "tool_use" else block


def _silent(reason: object, usage: Usage) -> CrystalError:
    cut = _FINISHES.get(str(reason)) == "length"
    hint = "the answer was cut off before it said anything: allow more with `max_tokens`"
    why = hint if cut else f"the model answered nothing (stop_reason {reason!r})"
    return CrystalError("invalid_response", why, usage=usage)


def _call(block: Mapping[str, Any], names: Names) -> ToolCall:
    given = block.get("input")
    arguments = given if isinstance(given, str) else msgspec.json.encode(given or {}).decode()
    return ToolCall(block.get("id") or "", names.back(block.get("name") or ""), arguments)


def _usage(usage: Mapping[str, Any]) -> Usage:
    cached = usage.get("cache_read_input_tokens") or 0
    prompt = (usage.get("input_tokens") or 0) + (usage.get("cache_creation_input_tokens") or 0) + cached
    return Usage(prompt=prompt, completion=usage.get("output_tokens") or 0, cached=cached)


class Assembling:
    """A stream's events, put together to the message that they are of."""

    def __init__(self) -> None:
        self.message: dict[str, Any] = {"content": [], "usage": {}}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[int, list[str]] = {}
        self._thoughts = Thoughts()
        self.complete = False

    def take(self, event: Mapping[str, Any]) -> Piece:
        """Add an event; gives what it brought."""
        type, index = event.get("type"), cast("int", event.get("index", 0))
        if type == "message_start":
            self.message["usage"].update(_known(event["message"].get("usage") or {}))
        elif type == "content_block_start":
            self._blocks[index] = dict(event["content_block"])
            self._pieces[index] = []
            return self._said(index, self._blocks[index])
        elif type == "content_block_delta":
            return self._delta(index, event["delta"])
        elif type == "content_block_stop":
            self._close(index)
        elif type == "message_delta":
            self.message["usage"].update(_known(event.get("usage") or {}))
            self.message.update(_known(event.get("delta") or {}))
        elif type == "message_stop":
            self.complete = True
            for open_block in tuple(self._pieces):
                self._close(open_block)
            self.message["content"] = [self._blocks[number] for number in sorted(self._blocks)]
        return Piece()

    def _delta(self, index: int, delta: Mapping[str, Any]) -> Piece:
        type, block = delta.get("type"), self._blocks[index]
        if type == "text_delta":
            block["text"] = (block.get("text") or "") + delta["text"]
        elif type == "input_json_delta":
            self._pieces[index].append(delta["partial_json"])
        elif type == "thinking_delta":
            block["thinking"] = (block.get("thinking") or "") + delta["thinking"]
        elif type == "signature_delta":
            block["signature"] = delta["signature"]
        return self._said(index, delta)

    def _said(self, index: int, given: Mapping[str, Any]) -> Piece:
        """What people may see of a block's beginning or delta: nothing of signatures, and of what is redacted."""
        if given.get("type") in ("thinking", "thinking_delta"):
            return Piece(thought=self._thoughts.take(index, given.get("thinking") or ""))
        return Piece(given.get("text") or "") if given.get("type") in ("text", "text_delta") else Piece()

    def _close(self, index: int) -> None:
        """The input of a tool call is JSON text until it is whole, and stays it for the circle to refuse."""
        pieces = self._pieces.pop(index, [])
        if self._blocks[index].get("type") == "tool_use" and pieces:
            self._blocks[index]["input"] = "".join(pieces)


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
