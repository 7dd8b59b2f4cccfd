"""OpenAI's Responses API: what it takes, and what it answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from coven.testing.providers.reply import Refused, Reply, require
from coven.testing.providers.wire import check_image_url, check_schema, event, halves

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_KNOWN: Final = {
    "model", "input", "instructions", "tools", "tool_choice", "max_output_tokens", "temperature", "top_p", "stream",
    "store", "include", "reasoning",
}  # fmt: skip
_REASONS: Final = {"blocked": "content_filter", "length": "max_output_tokens", "broken_off": "max_messages"}
_LONGEST_ID: Final = 64


class ResponsesFormat:
    """`/responses`. Reasoning is encrypted, and stands before what it led to; its summary has a part a paragraph."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._made = 0

    def serves(self, path: str) -> bool:
        """See `Format`."""
        return path.endswith("/responses")

    def streams(self, path: str, body: Mapping[str, Any]) -> bool:
        """See `Format`."""
        return bool(body.get("stream"))

    def check(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> None:
        """See `Format`."""
        if headers.get("authorization") != f"Bearer {self._key}":
            raise Refused("Incorrect API key provided", 401)
        unknown = set(body) - _KNOWN
        require(not unknown, f"Unknown parameter: {sorted(unknown)}")
        of_old = body["model"].startswith("gpt-4")
        for name in ("temperature", "top_p"):
            require(of_old or name not in body, f"Unsupported parameter: {name!r} is not supported with this model")
        require(not of_old or "reasoning" not in body, "Unsupported parameter: 'reasoning'")
        require(body.get("store") is not False or of_old or body.get("include"), "reasoning could not be used again")
        names = [tool["name"] for tool in body.get("tools") or ()]
        require(len(names) == len(set(names)), "tools: names must be unique")
        for tool in body.get("tools") or ():
            require(_NAME.fullmatch(tool["name"]), f"Invalid 'tools.name': {tool['name']!r}")
            check_schema(tool.get("parameters"), "tools.parameters")
        self._check_input(body)

    def _check_input(self, body: Mapping[str, Any]) -> None:
        items: list[dict[str, Any]] = body["input"]
        require(items, "input: must not be empty")
        calls: list[str] = []
        answered: list[str] = []
        for number, item in enumerate(items):
            type = item.get("type", "message")
            if type == "function_call":
                require(_NAME.fullmatch(item["name"]), f"Invalid 'input[{number}].name'")
                require(0 < len(item["call_id"]) <= _LONGEST_ID, f"Invalid 'input[{number}].call_id'")
                require(item["call_id"] not in calls, f"Duplicate item with call_id {item['call_id']}")
                require(isinstance(item["arguments"], str), f"input[{number}].arguments: must be a string")
                calls.append(item["call_id"])
            elif type == "function_call_output":
                require(item["call_id"] in calls, f"No tool call found for call_id {item['call_id']}")
                require(item["call_id"] not in answered, f"A second output for call_id {item['call_id']}")
                require(isinstance(item["output"], str), f"input[{number}].output: must be a string")
                answered.append(item["call_id"])
            elif type == "reasoning":
                thought = "\n\n".join(part["text"] for part in item["summary"])
                require(item.get("encrypted_content") == _encrypted(thought), "encrypted_content could not be verified")
                following = items[number + 1] if number + 1 < len(items) else {}
                follows = following.get("type") == "function_call" or following.get("role") == "assistant"
                require(follows, f"Item {item['id']} of type 'reasoning' was provided without its following item")
            else:
                require(item["role"] in ("user", "assistant"), f"input[{number}].role: unexpected")
                require(item["content"], f"input[{number}].content: must not be empty")
                if isinstance(item["content"], list):
                    self._check_parts(number, item["role"], cast("list[Any]", item["content"]))
        require(calls == answered or set(calls) == set(answered), "No tool output found for a function call")
        require(items[-1].get("role") != "assistant", "input: ends with the assistant")

    def _check_parts(self, number: int, role: str, parts: list[dict[str, Any]]) -> None:
        for part in parts:
            where = f"input[{number}].content"
            if part["type"] == "input_image":
                require(role == "user", f"{where}: images are the user's")
                check_image_url(part["image_url"], where)
            else:
                require(part["type"] == "input_text" and part["text"], f"{where}: text must not be empty")

    def answer(self, body: Mapping[str, Any], reply: Reply) -> Mapping[str, Any]:
        """See `Format`."""
        self._made += 1
        return self._response(body, reply, self._items(reply))

    def _response(self, body: Mapping[str, Any], reply: Reply, items: list[dict[str, Any]]) -> dict[str, Any]:
        reason = _REASONS.get(reply.finish)
        return {
            "id": f"resp_{self._made}",
            "object": "response",
            "created_at": 1,
            "status": "incomplete" if reason else "completed",
            "incomplete_details": {"reason": reason} if reason else None,
            "error": None,
            "model": body["model"],
            "output": items,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": reply.prompt_tokens,
                "input_tokens_details": {"cached_tokens": reply.cached_tokens, "cache_write_tokens": 0},
                "output_tokens": reply.completion_tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": reply.prompt_tokens + reply.completion_tokens,
            },
        }

    def _items(self, reply: Reply) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        if reply.thinking is not None:
            items.append(
                {
                    "type": "reasoning",
                    "id": f"rs_{self._made}",
                    "summary": [{"type": "summary_text", "text": part} for part in reply.thinking.split("\n\n")],
                    "encrypted_content": _encrypted(reply.thinking),
                }
            )
        refusal = [{"type": "refusal", "refusal": reply.message}] if reply.finish == "refusal" else []
        text: list[dict[str, Any]] = (
            [{"type": "output_text", "text": reply.text, "annotations": []}] if reply.text else []
        )
        if text or refusal:
            message = {"type": "message", "id": f"msg_{self._made}", "role": "assistant", "status": "completed"}
            items.append({**message, "content": [*text, *refusal]})
        for index, (name, arguments) in enumerate(reply.calls):
            id = f"{self._made:02}{index:02}"
            call = {"type": "function_call", "id": f"fc_{id}", "call_id": f"call_{id}", "status": "completed"}
            items.append({**call, "name": name, "arguments": arguments})
        return items

    def events(self, body: Mapping[str, Any], reply: Reply) -> Iterator[bytes]:
        """See `Format`."""
        whole = dict(self.answer(body, reply))
        started: dict[str, Any] = {
            **whole,
            "output": [],
            "status": "in_progress",
            "usage": None,
            "incomplete_details": None,
        }
        number = 0

        def made(type: str, **fields: Any) -> bytes:
            nonlocal number
            number += 1
            return event({"type": type, "sequence_number": number, **fields}, type)

        yield made("response.created", response=started)
        items: list[dict[str, Any]] = whole["output"]
        for place, item in enumerate(items):
            yield made("response.output_item.added", output_index=place, item=item)
            where = {"item_id": item["id"], "output_index": place}
            for number_of_part, part in enumerate(item.get("summary") or ()):
                for piece in halves(part["text"]):
                    summary: dict[str, Any] = {"summary_index": number_of_part, "delta": piece}
                    yield made("response.reasoning_summary_text.delta", **where, **summary)
            if item["type"] == "function_call":
                for piece in halves(item["arguments"]):
                    yield made("response.function_call_arguments.delta", **where, delta=piece)
            elif item["type"] == "message" and reply.text:
                for piece in halves(reply.text):
                    delta: dict[str, Any] = {"content_index": 0, "delta": piece, "logprobs": []}
                    yield made("response.output_text.delta", **where, **delta)
            yield made("response.output_item.done", output_index=place, item=item)
        if reply.error_within is not None:
            error = {"code": "server_error", "message": reply.message}
            yield made("response.failed", response={**whole, "status": "failed", "error": error})
            return
        yield made(f"response.{whole['status']}", response=whole)

    def error(self, status: int, message: str) -> Mapping[str, Any]:
        """See `Format`."""
        return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}


def _encrypted(thought: str) -> str:
    return f"gAAAA{sum(map(ord, thought))}"
