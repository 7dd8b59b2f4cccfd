"""The chat completions format, which most servers speak. Pure; answers are read by `normalise`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from branches.agents.crystal import CrystalRequest, CrystalResponse
from branches.agents.normalise import openai_response
from leaves.crystals._hearing import Piece
from leaves.crystals._images import data_url
from leaves.crystals._names import Names
from leaves.crystals._transcript import Heard, Said, transcript

_encoder = msgspec.json.Encoder(order="sorted")
_THOUGHTS = ("reasoning_content", "reasoning")


def build(request: CrystalRequest, model: str, names: Names, *, cache: bool = False) -> dict[str, Any]:
    """Messages, tools and sampling. `model` is `provider/model`: only its own reasoning is sent back.

    With `cache`, the system prompt says that it is to be kept, for providers that want to be told.
    """
    said = transcript(request.messages)
    messages: list[dict[str, Any]] = []
    if said.system:
        messages.append({"role": "system", "content": _system(said.system, cache=cache)})
    for exchange in said.exchanges:
        messages += (
            {"role": "tool", "tool_call_id": result.id, "content": result.content} for result in exchange.heard.results
        )
        if exchange.heard.texts:
            messages.append({"role": "user", "content": _heard(exchange.heard)})
        if exchange.said is not None:
            messages.append(_said(exchange.said, model, names))
    body: dict[str, Any] = {"messages": messages}
    if request.tools and request.tool_choice != "none":
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": names.there(tool.name),
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in request.tools
        ]
    sampling = msgspec.to_builtins(request.sampling)
    return body | {name: value for name, value in sampling.items() if value is not None}


def _system(texts: tuple[str, ...], *, cache: bool) -> Any:
    if not cache:
        return "\n\n".join(texts)
    first, *others = ({"type": "text", "text": text} for text in texts)
    return [{**first, "cache_control": {"type": "ephemeral"}}, *others]


def _heard(heard: Heard) -> Any:
    text = "\n\n".join(heard.texts)
    if not heard.images:
        return text
    images = ({"type": "image_url", "image_url": {"url": data_url(image)}} for image in heard.images)
    return [{"type": "text", "text": text}, *images]


def _said(said: Said, model: str, names: Names) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.content}
    if said.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": names.there(call.gate), "arguments": _arguments(call.arguments)},
            }
            for call in said.tool_calls
        ]
    if said.opaque is not None and said.model == model:
        message["reasoning_details"] = msgspec.json.decode(said.opaque)
    return message


def _arguments(text: str) -> str:
    """The text as it is, if it is an object: some servers read it again and fail on anything else."""
    try:
        return text if isinstance(msgspec.json.decode(text), dict) else _encoder.encode({"unreadable": text}).decode()
    except msgspec.DecodeError:
        return _encoder.encode({"unreadable": text}).decode()


def read(completion: Mapping[str, Any], names: Names, model: str, most: int | None = None) -> CrystalResponse:
    """A completion as a response; `most` are the tokens that it could have. Raises what `openai_response` raises."""
    response = openai_response(completion)
    cut = response.finish == "tool_calls" and most is not None and response.usage.completion >= most
    details = completion["choices"][0]["message"].get("reasoning_details")
    return msgspec.structs.replace(
        response,
        tool_calls=tuple(msgspec.structs.replace(call, gate=names.back(call.gate)) for call in response.tool_calls),
        model=model,
        opaque=_encoder.encode(details).decode() if details else None,
        finish="length" if cut else response.finish,  # some servers tell of calls alone, also where they cut one off
    )


class Assembling:
    """The chunks of a stream, put together to the completion that they are of."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        self._details: dict[Any, dict[str, Any]] = {}
        self._usage: Any = None
        self._finish: Any = None
        self._error: Any = None
        self._thinks: str | None = None

    @property
    def complete(self) -> bool:
        """Whether the answer has come to its end."""
        return self._finish is not None

    @property
    def completion(self) -> dict[str, Any]:
        """All of it."""
        message: dict[str, Any] = {name: "".join(pieces) for name, pieces in self._texts.items()}
        message["tool_calls"] = [self._calls[index] for index in sorted(self._calls)]
        message["reasoning_details"] = list(self._details.values())
        choice = {"message": message, "finish_reason": self._finish, "error": self._error}
        return {"choices": [choice], "usage": self._usage}

    def take(self, chunk: Mapping[str, Any]) -> Piece:
        """Add a chunk; gives what it brought. Of two names for the same thought the first that came is told."""
        self._usage = chunk.get("usage") or self._usage
        choices: list[dict[str, Any]] = chunk.get("choices") or [{}]
        choice = choices[0]
        delta = cast("Mapping[str, Any]", choice.get("delta") or {})
        self._finish = choice.get("finish_reason") or self._finish
        self._error = choice.get("error") or self._error
        for name in ("content", "refusal", "reasoning_content", "reasoning"):
            if isinstance(delta.get(name), str):
                self._texts.setdefault(name, []).append(delta[name])
        for position, piece in enumerate(delta.get("tool_calls") or ()):
            self._take_call(piece, position)
        for detail in delta.get("reasoning_details") or ():
            self._take_detail(detail)
        if self._thinks is None:
            self._thinks = next((name for name in _THOUGHTS if delta.get(name)), None)
        thought = delta.get(self._thinks) if self._thinks is not None else None
        return Piece(delta.get("content") or "", thought if isinstance(thought, str) else "")

    def _take_call(self, piece: Mapping[str, Any], position: int) -> None:
        """Some servers leave the index out, and send each call whole."""
        given = piece.get("index")
        index = given if isinstance(given, int) else (len(self._calls) if piece.get("id") else position)
        call = self._calls.setdefault(index, {"id": None, "function": {"name": "", "arguments": ""}})
        function = cast("Mapping[str, Any]", piece.get("function") or {})
        call["id"] = call["id"] or piece.get("id")
        call["function"]["name"] = call["function"]["name"] or function.get("name") or ""
        call["function"]["arguments"] += function.get("arguments") or ""

    def _take_detail(self, detail: Mapping[str, Any]) -> None:
        key = (detail.get("index"), detail.get("type"))
        kept = self._details.setdefault(key, {})
        for name, value in detail.items():
            joins = name in ("text", "summary", "data") and isinstance(value, str)
            kept[name] = kept.get(name, "") + value if joins else value
