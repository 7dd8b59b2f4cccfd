"""Anthropic's Messages API: what it takes, and what it answers."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from coven.testing.providers.reply import Refused, Reply, require
from coven.testing.providers.wire import check_image, check_schema, event, halves

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_KNOWN: Final = {
    "model", "max_tokens", "messages", "system", "tools", "tool_choice", "stop_sequences", "stream", "thinking",
    "output_config", "metadata", "cache_control",
}  # fmt: skip
_TYPES: Final = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error"}
_REASONS: Final = {
    "refusal": "refusal",
    "blocked": "refusal",
    "length": "max_tokens",
    "broken_off": "pause_turn",
}
_NO_FORCE: Final = ("5-5", "5-1")
_BREAKPOINTS: Final = 4
_IMAGE: Final = 5 * 1024 * 1024


class AnthropicFormat:
    """`/v1/messages`. Thoughts are signed together with what stood before them, as current models do it."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._made = 0

    def serves(self, path: str) -> bool:
        """See `Format`."""
        return path.endswith("/v1/messages")

    def streams(self, path: str, body: Mapping[str, Any]) -> bool:
        """See `Format`."""
        return bool(body.get("stream"))

    def check(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> None:
        """See `Format`."""
        if self._key not in (headers.get("x-api-key"), headers.get("authorization", "").removeprefix("Bearer ")):
            raise Refused("invalid x-api-key", 401)
        require(headers.get("anthropic-version"), "anthropic-version: header is required")
        unknown = set(body) - _KNOWN
        require(not unknown, f"{sorted(unknown)}: Extra inputs are not permitted")
        require(isinstance(body.get("max_tokens"), int) and body["max_tokens"] > 0, "max_tokens: must be positive")
        names = self._check_tools(body)
        messages: list[dict[str, Any]] = body.get("messages") or []
        require(messages, "messages: at least one message is required")
        require(messages[0]["role"] == "user", "messages: first message must use the user role")
        require(messages[-1]["role"] == "user", "messages: this model does not support assistant message prefill")
        ids: set[str] = set()
        for number, message in enumerate(messages):
            require(message["role"] in ("user", "assistant"), f"messages.{number}.role: unexpected")
            if number:
                require(message["role"] != messages[number - 1]["role"], "messages: roles must alternate")
            self._check_content(body, number, ids, names)
        marks = json.dumps(body).count('"cache_control"')
        require(marks <= _BREAKPOINTS, f"a maximum of 4 blocks with cache_control may be provided; found {marks}")

    def _check_tools(self, body: Mapping[str, Any]) -> set[str]:
        names: set[str] = set()
        for tool in body.get("tools") or ():
            require(_NAME.fullmatch(tool["name"]), f"tools: {tool['name']!r} should match pattern {_NAME.pattern}")
            require(tool["name"] not in names, "tools: tool names must be unique")
            check_schema(tool.get("input_schema"), "tools.input_schema")
            names.add(tool["name"])
        choice = body.get("tool_choice", {}).get("type")
        require(choice is None or names, "tool_choice may only be specified while providing tools")
        forced = choice in ("any", "tool") and (body.get("thinking") or body["model"].endswith(_NO_FORCE))
        require(not forced, "tool_choice: forced tool use is not supported for this model")
        return names

    def _check_content(self, body: Mapping[str, Any], number: int, ids: set[str], names: set[str]) -> None:
        message = body["messages"][number]
        content: list[dict[str, Any]] = message["content"]
        require(content, f"messages.{number}: content must be non-empty")
        before: list[dict[str, Any]] = body["messages"][number - 1]["content"] if number else []
        asked = [block["id"] for block in before if block["type"] == "tool_use"]
        answered = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        require(set(asked) == set(answered), f"messages.{number}: tool_use ids {asked} were followed by {answered}")
        require(len(answered) == len(set(answered)), f"messages.{number}: each tool_use must have a single result")
        kinds = [block["type"] for block in content]
        require(kinds == sorted(kinds, key=lambda kind: kind != "tool_result") or message["role"] == "assistant",
                f"messages.{number}: tool_result blocks come first")  # fmt: skip
        for place, block in enumerate(content):
            where = f"messages.{number}.content.{place}"
            kind = block["type"]
            if kind == "text":
                require(block["text"].strip(), f"{where}: text content blocks must contain non-whitespace text")
            elif kind == "image":
                require(message["role"] == "user", f"{where}: image is the user's")
                source = block["source"]
                require(source["type"] == "base64", f"{where}.source.type: unexpected")
                check_image(source["media_type"], source["data"], where)
                require(len(source["data"]) <= _IMAGE, f"{where}: image exceeds 5 MB maximum")
            elif kind == "tool_use":
                require(message["role"] == "assistant", f"{where}: tool_use is the assistant's")
                require(_ID.fullmatch(block["id"]), f"{where}.id: should match pattern {_ID.pattern}")
                require(block["id"] not in ids, f"{where}: `tool_use` ids must be unique")
                require(_NAME.fullmatch(block["name"]), f"{where}.name: should match pattern {_NAME.pattern}")
                require(isinstance(block["input"], dict), f"{where}.input: should be an object")
                require(names, "tools: must be defined while messages contain tool_use blocks")
                ids.add(block["id"])
            elif kind in ("thinking", "redacted_thinking"):
                require("cache_control" not in block, f"{where}: cache_control is not permitted on thinking")
                require(block.get("signature") == _signature(body, number, block["thinking"]),
                        f"{where}: Invalid `signature` in `thinking` block. "
                        "The block is bound to a different conversation.")  # fmt: skip
            else:
                require(kind == "tool_result", f"{where}.type: unexpected {kind!r}")

    def answer(self, body: Mapping[str, Any], reply: Reply) -> Mapping[str, Any]:
        """See `Format`."""
        self._made += 1
        return {
            "id": f"msg_{self._made}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": self._blocks(body, reply),
            **_stop(reply),
            "stop_sequence": None,
            "usage": _usage(reply) | {"output_tokens": reply.completion_tokens},
        }

    def _blocks(self, body: Mapping[str, Any], reply: Reply) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        if reply.thinking is not None:
            signature = _signature(body, len(body["messages"]), reply.thinking)
            blocks.append({"type": "thinking", "thinking": reply.thinking, "signature": signature})
        if reply.text:
            blocks.append({"type": "text", "text": reply.text})
        for index, (name, arguments) in enumerate(reply.calls):
            try:
                given = json.loads(arguments)
            except ValueError:
                given = {}
            blocks.append({"type": "tool_use", "id": f"toolu_{self._made:02}{index:02}", "name": name, "input": given})
        return blocks

    def events(self, body: Mapping[str, Any], reply: Reply) -> Iterator[bytes]:
        """See `Format`."""
        whole = dict(self.answer(body, reply))
        blocks: list[dict[str, Any]] = whole["content"]
        start: dict[str, Any] = whole | {
            "content": [],
            "stop_reason": None,
            "usage": _usage(reply) | {"output_tokens": 1},
        }
        yield _event("message_start", message=start)
        yield _event("ping")
        texts = iter([arguments for _, arguments in reply.calls])
        for index, block in enumerate(blocks):
            yield from _block_events(index, block, texts)
        if reply.error_within is not None:
            yield _event("error", error={"type": reply.error_within, "message": reply.message})
            return
        usage = {"output_tokens": reply.completion_tokens}
        yield _event("message_delta", delta={**_stop(reply), "stop_sequence": None}, usage=usage)
        yield _event("message_stop")

    def error(self, status: int, message: str) -> Mapping[str, Any]:
        """See `Format`."""
        type = _TYPES.get(status, "rate_limit_error" if status == 429 else "api_error")
        return {"type": "error", "error": {"type": type, "message": message}}


def _block_events(index: int, block: Mapping[str, Any], texts: Iterator[str]) -> Iterator[bytes]:
    kind = block["type"]
    if kind == "tool_use":
        yield _event("content_block_start", index=index, content_block={**block, "input": {}})
        deltas: list[dict[str, Any]] = [{"type": "input_json_delta", "partial_json": ""}]
        deltas += [{"type": "input_json_delta", "partial_json": piece} for piece in halves(next(texts))]
    elif kind == "thinking":
        yield _event("content_block_start", index=index, content_block={**block, "thinking": "", "signature": ""})
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in halves(block["thinking"])]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    else:
        yield _event("content_block_start", index=index, content_block={**block, "text": ""})
        deltas = [{"type": "text_delta", "text": piece} for piece in halves(block["text"])]
    for delta in deltas:
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _event(type: str, **fields: Any) -> bytes:
    return event({"type": type, **fields}, type)


def _usage(reply: Reply) -> dict[str, int]:
    return {
        "input_tokens": reply.prompt_tokens - reply.cached_tokens,
        "cache_read_input_tokens": reply.cached_tokens,
        "cache_creation_input_tokens": 0,
    }


def _stop(reply: Reply) -> dict[str, Any]:
    reason = _REASONS.get(reply.finish)
    explained = reason == "refusal" and reply.message
    details = {"type": "refusal", "category": "cyber", "explanation": reply.message} if explained else None
    return {"stop_reason": reason or ("tool_use" if reply.calls else "end_turn"), "stop_details": details}


def _signature(body: Mapping[str, Any], number: int, thought: str) -> str:
    """What a thought is signed with: the model, all that stands before it, and the thought."""
    before = [body["model"], body.get("system"), body.get("tools"), body["messages"][:number], thought]
    stripped = re.sub(r',?\s*"cache_control": \{[^}]*\}', "", json.dumps(before, sort_keys=True))
    return hashlib.sha256(re.sub(r"\{,\s*", "{", stripped).encode()).hexdigest()
