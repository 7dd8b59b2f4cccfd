"""The Gemini API: what it takes, and what it answers."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from coven.testing.providers.reply import Refused, Reply, require
from coven.testing.providers.wire import check_image, check_schema, event, halves

_PATH: Final = re.compile(r".*/models/[^/:]+:(generateContent|streamGenerateContent)")
_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}")
_STRANGER: Final = base64.urlsafe_b64encode(b"skip_thought_signature_validator").decode()
_WRONG_KEY: Final = "API key not valid. Please pass a valid API key."
_FINISHES: Final = {"blocked": "SAFETY", "length": "MAX_TOKENS", "broken_off": "OTHER"}
_REASONS: Final = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}


class GeminiFormat:
    """`/models/…:generateContent` and `:streamGenerateContent`. Calls must carry the signature that they came with."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._made = 0
        self._signed: set[str] = {_STRANGER}

    def serves(self, path: str) -> bool:
        """See `Format`."""
        return _PATH.fullmatch(path) is not None

    def streams(self, path: str, body: Mapping[str, Any]) -> bool:
        """See `Format`."""
        return ":streamGenerateContent" in path

    def check(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> None:
        """See `Format`."""
        if headers.get("x-goog-api-key") != self._key:
            raise Refused(_WRONG_KEY)
        contents: list[dict[str, Any]] = body.get("contents") or []
        require(contents and contents[0]["role"] == "user", "contents: must begin with the user")
        require(contents[-1]["role"] == "user", "contents: must end with the user")
        for one, two in pairwise(contents):
            require(one["role"] != two["role"], "contents: roles must alternate")
            called = [part["functionCall"]["name"] for part in one["parts"] if "functionCall" in part]
            given = [part["functionResponse"]["name"] for part in two["parts"] if "functionResponse" in part]
            require(called == given, "function response parts must equal the function call parts of the turn before")
        for number, content in enumerate(contents):
            self._check_parts(number, content)
        for tool in body.get("tools") or ():
            for declared in tool["functionDeclarations"]:
                require(_NAME.fullmatch(declared["name"]), f"Invalid function name {declared['name']!r}")
                schema = declared.get("parametersJsonSchema") or declared.get("parameters_json_schema")
                check_schema(schema, "parametersJsonSchema")  # both spellings are JSON of one protocol buffer

    def _check_parts(self, number: int, content: Mapping[str, Any]) -> None:
        require(content["parts"], f"contents[{number}].parts: must not be empty")
        first = True
        for part in content["parts"]:
            signature = part.get("thoughtSignature")
            require(signature is None or signature in self._signed, "Thought signature is not valid")
            if "functionCall" in part:
                require(content["role"] == "model", "functionCall is the model's")
                require(isinstance(part["functionCall"].get("args", {}), dict), "args: must be an object")
                require(not first or signature, "Function call is missing a thought_signature")
                first = False
            elif "functionResponse" in part:
                require(isinstance(part["functionResponse"]["response"], dict), "response: must be an object")
            elif "inlineData" in part:
                require(content["role"] == "user", "inlineData is the user's")
                blob = part["inlineData"]
                standard = blob["data"].replace("-", "+").replace("_", "/")
                type = blob.get("mimeType") or blob.get("mime_type")  # JSON of one protocol buffer, as with schemas
                require(type != "image/gif", "Unsupported MIME type: image/gif")
                check_image(type, standard, "inlineData")
            else:
                require(part.get("text"), f"contents[{number}].parts: must contain text")

    def answer(self, body: Mapping[str, Any], reply: Reply) -> Mapping[str, Any]:
        """See `Format`."""
        self._made += 1
        if reply.finish == "refusal":
            return {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": _usage(reply)}
        return self._chunk(self._parts(reply), reply)

    def _chunk(self, parts: list[dict[str, Any]], reply: Reply, *, last: bool = True) -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        if last:
            candidate["finishReason"] = _FINISHES.get(reply.finish, "STOP")
        return {"candidates": [candidate], "usageMetadata": _usage(reply), "responseId": f"r{self._made}"}

    def _parts(self, reply: Reply) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        if reply.thinking is not None:
            parts.append({"text": reply.thinking, "thought": True})
        if reply.text:
            parts.append({"text": reply.text})
        for index, (name, arguments) in enumerate(reply.calls):
            try:
                given = json.loads(arguments)
            except ValueError:
                given = {}
            call: dict[str, Any] = {"functionCall": {"id": f"fc{self._made:02}{index:02}", "name": name, "args": given}}
            parts.append(call if index else {**call, "thoughtSignature": self._sign()})
        return parts

    def _sign(self) -> str:
        signature = base64.urlsafe_b64encode(f"signature {self._made} \u00ff\u00fe".encode("latin-1")).decode()
        self._signed.add(signature)
        return signature

    def events(self, body: Mapping[str, Any], reply: Reply) -> Iterator[bytes]:
        """See `Format`."""
        if reply.finish == "refusal":
            yield event(self.answer(body, reply))
            return
        self._made += 1
        for part in self._parts(reply):
            pieces = [{**part, "text": piece} for piece in halves(part["text"])] if "text" in part else [part]
            for piece in pieces:
                yield event(self._chunk([piece], reply, last=False))
        if reply.error_within is not None:
            yield event(self.error(503, reply.message))
            return
        yield event(self._chunk([{"text": ""}], reply))

    def error(self, status: int, message: str) -> Mapping[str, Any]:
        """See `Format`."""
        error: dict[str, Any] = {"code": status, "message": message, "status": _REASONS.get(status, "UNAVAILABLE")}
        if message == _WRONG_KEY:  # which is a bad request here, and told from others by the details alone
            info = {"reason": "API_KEY_INVALID", "domain": "googleapis.com"}
            error["details"] = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", **info}]
        return {"error": error}


def _usage(reply: Reply) -> dict[str, int]:
    return {
        "promptTokenCount": reply.prompt_tokens,
        "cachedContentTokenCount": reply.cached_tokens,
        "candidatesTokenCount": reply.completion_tokens,
        "totalTokenCount": reply.prompt_tokens + reply.completion_tokens,
    }
