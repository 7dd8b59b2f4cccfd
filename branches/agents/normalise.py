"""What providers answer, as the crystal contract has it (CRYSTAL-6). Pure: nothing here reaches a provider.

Servers that speak OpenAI's format differ in what they leave out, so nothing but an answer itself is required of them.
"""

from __future__ import annotations

import email.utils
import math
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, Final, cast

import msgspec

from branches.agents.crystal import CrystalError, CrystalResponse, Finish, ToolCall, Usage, paid

_LENGTHS: Final = ("length", "model_length", "max_tokens")
_CODES: Final = {401: "unauthorized", 403: "unauthorized", 404: "not_found", 408: "unavailable", 429: "rate_limited"}


def openai_response(raw: Mapping[str, Any]) -> CrystalResponse:
    """A chat completion of OpenAI's format as a response.

    Missing ids are given, arguments become JSON text, and arguments that are not JSON stay as they are for the circle
    to refuse. Raises `CrystalError`: `refused` where the model or a filter declined, `invalid_response` where there is
    no answer in it, and what `http_error` says for an error that came in the place of an answer.
    """
    if isinstance(raw.get("error"), Mapping):
        raise _reported(raw["error"])
    usage = _usage(_mapping(raw.get("usage")))
    with paid(usage):
        return _answer(raw, usage)


def _answer(raw: Mapping[str, Any], usage: Usage) -> CrystalResponse:
    choice = _mapping(next(iter(_list(raw.get("choices"))), None))
    message = _mapping(choice.get("message"))
    content, finish = _text(message.get("content")), choice.get("finish_reason")
    tool_calls = _tool_calls(message)
    refusal = _text(message.get("refusal"))
    if finish == "error":
        raise _reported(_mapping(choice.get("error")))
    if refusal:
        raise CrystalError("refused", f"the model declined: {refusal}")
    if finish == "content_filter":
        raise CrystalError("refused", "the provider's content filter stopped the answer")
    if finish in _LENGTHS and not content and not tool_calls:
        raise CrystalError(
            "invalid_response", "the answer was cut off before it said anything: allow more with `max_tokens`"
        )
    if not message:
        raise CrystalError("invalid_response", "the provider's response has no message in `choices`")
    return CrystalResponse(
        content=content,
        tool_calls=tool_calls,
        usage=usage,
        thinking=_text(message.get("reasoning_content")) or _text(message.get("reasoning")),
        finish=_finish(finish, calls=bool(tool_calls)),
    )


def http_error(status: int, message: str, *, retry_after: str | None = None, now: float = 0.0) -> CrystalError:
    """The failure that a status stands for. `retry_after` is the header: seconds, or a date as seen from `now`."""
    code = _CODES.get(status, "unavailable" if status >= 500 else "bad_request")
    return CrystalError(code, message, status=status, retry_after_s=_seconds(retry_after, now))


def _seconds(header: str | None, now: float) -> float | None:
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        seconds = float(text)
        return seconds if math.isfinite(seconds) else None
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _reported(error: Mapping[str, Any]) -> CrystalError:
    """An error that a proxy sends with status 200."""
    code, message = error.get("code"), _text(error.get("message")) or "the provider reported an error without a message"
    if isinstance(code, str) and code.isascii() and code.isdigit():
        code = int(code)
    return http_error(code, message) if isinstance(code, int) else CrystalError("unavailable", message)


def _tool_calls(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    given = [_mapping(each) for each in _list(message.get("tool_calls"))]
    taken = {id for call in given if isinstance(id := call.get("id"), str)}
    free = (id for id in (f"call_{number}" for number in count(1)) if id not in taken)
    return tuple(_tool_call(call, number, free) for number, call in enumerate(given, 1))


def _tool_call(call: Mapping[str, Any], number: int, free: Iterator[str]) -> ToolCall:
    function, id = _mapping(call.get("function")), call.get("id")
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise CrystalError("invalid_response", f"tool call {number} of the provider's response names no function")
    return ToolCall(id if isinstance(id, str) and id else next(free), name, _arguments(function.get("arguments")))


def _arguments(given: Any) -> str:
    if given is None or given == "":
        return "{}"
    return given if isinstance(given, str) else msgspec.json.encode(given).decode()


def _usage(usage: Mapping[str, Any]) -> Usage:
    details = _mapping(usage.get("prompt_tokens_details"))
    cached = details.get("cached_tokens", usage.get("prompt_cache_hit_tokens"))
    return Usage(
        prompt=_count(usage.get("prompt_tokens")),
        completion=_count(usage.get("completion_tokens")),
        cached=_count(cached),
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _text(value: Any) -> str | None:
    """Text, or the text parts of a list of parts; None for nothing and for what is empty."""
    if isinstance(value, list):
        parts = (_mapping(part).get("text") for part in cast("list[Any]", value))
        value = "".join(part for part in parts if isinstance(part, str))
    return value if isinstance(value, str) and value else None


def _finish(told: Any, *, calls: bool) -> Finish:
    """Servers have many words for an answer that is whole, and say of calls too that they have stopped."""
    return "length" if told in _LENGTHS else "tool_calls" if calls else "stop"


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
