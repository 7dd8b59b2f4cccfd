"""Chat completions, as OpenRouter and local servers have them: what they take, and what they answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, cast

from coven.testing.providers.reply import Refused, Reply, require
from coven.testing.providers.wire import check_image_url, check_schema, event, halves

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NEXT: Final = {
    "system": {"user"},
    "user": {"assistant"},
    "assistant": {"user", "tool"},
    "tool": {"tool", "assistant", "user"},
}


class CompletionsFormat:
    """`/chat/completions`. Roles must alternate, as the templates of many local models want it."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._made = 0

    def serves(self, path: str) -> bool:
        """See `Format`."""
        return path.endswith("/chat/completions")

    def streams(self, path: str, body: Mapping[str, Any]) -> bool:
        """See `Format`."""
        return bool(body.get("stream"))

    def check(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> None:
        """See `Format`."""
        if headers.get("authorization") not in (f"Bearer {self._key}", "Bearer none"):
            raise Refused("Incorrect API key provided", 401)
        require(body.get("model"), "you must provide a model parameter")
        messages: list[dict[str, Any]] = body.get("messages") or []
        require(messages and messages[0]["role"] in ("system", "user"), "messages: begin with system or user")
        for one, two in pairwise(messages):
            require(two["role"] in _NEXT[one["role"]], f"messages: {two['role']} after {one['role']}")
        require(messages[-1]["role"] != "assistant", "messages: the last one is the assistant's")
        self._check_calls(messages)
        names = [tool["function"]["name"] for tool in body.get("tools") or ()]
        require(len(names) == len(set(names)), "tools: names must be unique")
        for tool in body.get("tools") or ():
            require(tool["type"] == "function", "tools: unknown type")
            require(_NAME.fullmatch(tool["function"]["name"]), f"tools: {tool['function']['name']!r} is no name")
            check_schema(tool["function"]["parameters"], "tools.function.parameters")
        require(not body.get("stream_options") or body.get("stream"), "stream_options is only allowed with stream")

    def _check_calls(self, messages: list[dict[str, Any]]) -> None:
        waiting: list[str] = []
        for number, message in enumerate(messages):
            if message["role"] == "tool":
                require(message["tool_call_id"] in waiting, f"messages.{number}: answers no call")
                require(isinstance(message["content"], str), f"messages.{number}: content must be text")
                waiting.remove(message["tool_call_id"])
                continue
            require(not waiting, f"messages.{number}: tool_call_ids {waiting} have no response messages")
            if message["role"] == "assistant":
                calls: list[dict[str, Any]] = message.get("tool_calls") or []
                require(calls or message.get("content"), f"messages.{number}: says nothing")
                for call in calls:
                    require(_NAME.fullmatch(call["function"]["name"]), f"messages.{number}: no name")
                    require(isinstance(json.loads(call["function"]["arguments"]), dict), "arguments: no object")
                waiting = [call["id"] for call in calls]
                for detail in message.get("reasoning_details") or ():
                    require(detail.get("signature") == _sign(detail["text"]), "reasoning_details: changed")
            else:
                require(message.get("content"), f"messages.{number}: content must not be empty")
                if isinstance(message["content"], list):
                    self._check_parts(number, message["role"], cast("list[Any]", message["content"]))

    def _check_parts(self, number: int, role: str, parts: list[dict[str, Any]]) -> None:
        for part in parts:
            where = f"messages.{number}.content"
            if part["type"] == "image_url":
                require(role == "user", f"{where}: images are the user's")
                check_image_url(part["image_url"]["url"], where)
            else:
                require(part["type"] == "text" and part["text"], f"{where}: text must not be empty")

    def answer(self, body: Mapping[str, Any], reply: Reply) -> Mapping[str, Any]:
        """See `Format`."""
        self._made += 1
        message: dict[str, Any] = {"role": "assistant", "content": reply.text, "refusal": None}
        if reply.finish == "refusal":
            message["refusal"] = reply.message
        if reply.thinking is not None:
            message |= {"reasoning": reply.thinking, "reasoning_details": [_detail(reply.thinking)]}
        if reply.calls:
            message["tool_calls"] = [self._call(index, *call) for index, call in enumerate(reply.calls)]
        choice = {"index": 0, "message": message, "finish_reason": _finish(reply), **_error(reply)}
        return {**self._head(body, "chat.completion"), "choices": [choice], "usage": _usage(reply)}

    def _call(self, index: int, name: str, arguments: str) -> dict[str, Any]:
        id = f"call_{self._made:02}{index:02}"
        return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}

    def _head(self, body: Mapping[str, Any], object: str) -> dict[str, Any]:
        return {"id": f"gen-{self._made}", "object": object, "created": 1, "model": body["model"]}

    def events(self, body: Mapping[str, Any], reply: Reply) -> Iterator[bytes]:
        """See `Format`."""
        self._made += 1
        yield b": PROCESSING\n\n"
        for delta in self._deltas(reply):
            yield self._chunk(body, [{"index": 0, "delta": delta, "finish_reason": None}])
        if reply.error_within is not None:
            error = {"code": 502, "message": reply.message}
            yield event({**self._head(body, "chat.completion.chunk"), "error": error, "choices": []})
            return
        yield self._chunk(body, [{"index": 0, "delta": {}, "finish_reason": _finish(reply), **_error(reply)}])
        yield event({**self._head(body, "chat.completion.chunk"), "choices": [], "usage": _usage(reply)})
        yield event("[DONE]")

    def _chunk(self, body: Mapping[str, Any], choices: list[dict[str, Any]]) -> bytes:
        return event({**self._head(body, "chat.completion.chunk"), "choices": choices})

    def _deltas(self, reply: Reply) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": ""}
        for piece in halves(reply.thinking or ""):
            yield {"reasoning": piece, "reasoning_details": [{**_detail(piece), "signature": None}]}
        if reply.thinking is not None:
            yield {"reasoning_details": [{**_detail(""), "signature": _sign(reply.thinking)}]}
        for piece in halves(reply.text or ""):
            yield {"content": piece}
        if reply.finish == "refusal":
            yield {"refusal": reply.message}
        for index, (name, arguments) in enumerate(reply.calls):
            call = self._call(index, name, "")
            yield {"tool_calls": [{"index": index, **call}]}
            for piece in halves(arguments):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}

    def error(self, status: int, message: str) -> Mapping[str, Any]:
        """See `Format`."""
        return {"error": {"message": message, "type": None, "code": status}}


def _detail(text: str) -> dict[str, Any]:
    return {"type": "reasoning.text", "text": text, "signature": _sign(text), "index": 0}


def _sign(text: str) -> str:
    return f"signed:{len(text)}"


def _finish(reply: Reply) -> str:
    odd = {"blocked": "content_filter", "length": "length", "broken_off": "error"}.get(reply.finish)
    return odd or ("tool_calls" if reply.calls else "stop")


def _error(reply: Reply) -> dict[str, Any]:
    return {"error": {"code": 502, "message": reply.message}} if reply.finish == "broken_off" else {}


def _usage(reply: Reply) -> dict[str, Any]:
    return {
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "total_tokens": reply.prompt_tokens + reply.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": reply.cached_tokens},
    }
