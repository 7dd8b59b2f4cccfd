"""A model that does what it is told, for the loopback server: it knows the requests, and nothing of the tests.

It understands the plain words that the contract's prompts are made of, in the wire format of every provider.
"""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from coven.testing.providers import Received, Reply

NO_SUCH_MODEL = "a-model-that-nobody-has"
REFUSED = "ANTHROPIC_MAGIC_STRING_TRIGGER_REFUSAL_1FAEFB6177B4672DEE07F9D3AFC62588CCD2631EDCF22E8CCC1FB35B501C9C86"
"""What Anthropic documented for trying out refusals."""
_LONG = 4_000
_CALLABLE = re.compile(r"\b(\w+\.txt)\b")


class Told(NamedTuple):
    """A request, whatever its format. `texts` and `results` are those that came after the model last spoke."""

    model: str
    system: str
    everything: str
    texts: list[str]
    results: list[str]
    images: list[bytes]
    tools: list[str]
    choice: str
    stops: list[str]
    most: int | None


class Obedient:
    """Answers requests. It remembers long system prompts, as a provider's cache does, and nothing else."""

    def __init__(self) -> None:
        self._cached: set[str] = set()

    def __repr__(self) -> str:
        return f"<Obedient, {len(self._cached)} prompts in its cache>"

    def __call__(self, request: Received) -> Reply:
        told = understand(request)
        if told.model == NO_SUCH_MODEL:
            return Reply(status=404, message=f"the model {NO_SUCH_MODEL} was not found")
        if any(REFUSED in text for text in told.texts):
            return Reply(finish="refusal", message="That I do not do.", prompt_tokens=1)
        prompt = max(1, len(json.dumps(request.body)) // 4)
        cached = len(told.system) // 4 if told.system in self._cached else 0
        if len(told.system) > _LONG:
            self._cached.add(told.system)
        calls = _calls(told)
        if calls and told.most is not None and (asked := _written(calls)) > told.most:
            name, arguments = calls[-1]
            cut = arguments[: len(arguments) * told.most // asked]
            return Reply(calls=((name, cut),), finish="length", prompt_tokens=prompt, completion_tokens=told.most)
        if calls:
            return Reply(thinking="I look.", calls=calls, prompt_tokens=prompt, completion_tokens=9 * len(calls))
        words, finish = re.findall(r"\S+\s*", _cut(_said(told), told.stops)), "normal"
        if told.most is not None and len(words) > told.most:
            words, finish = words[: told.most], "length"
        return Reply(
            thinking="I think.",
            text="".join(words),
            finish="length" if finish == "length" else "normal",
            prompt_tokens=prompt,
            cached_tokens=cached,
            completion_tokens=len(words),
        )


def _calls(told: Told) -> tuple[tuple[str, str], ...]:
    """A call for each file that it is told to read, or any where one is required."""
    if not told.tools or told.choice == "none" or (told.results and not told.texts):
        return ()
    if number := re.search(r"With the tool, write all the numbers from 1 to (\d+)", told.texts[-1]):
        return ((told.tools[0], json.dumps({"path": "n.txt", "text": _numbers(int(number[1]))})),)
    files = [name for text in told.texts if "Read" in text for name in _CALLABLE.findall(text)]
    files = files or (["a.txt"] if told.choice == "required" or "Answer with a tool call" in told.texts[-1] else [])
    return tuple((told.tools[0], json.dumps({"path": name})) for name in files)


def _written(calls: tuple[tuple[str, str], ...]) -> int:
    """How many tokens these calls are: a word is one, and what is around the arguments too."""
    return sum(8 + len(arguments.split()) for _, arguments in calls)


def _numbers(last: int) -> str:
    return " ".join(str(each) for each in range(1, last + 1))


def _said(told: Told) -> str:
    asked = told.texts[-1] if told.texts else ""
    if exact := re.search(r"Say exactly this and nothing else: (.+)", asked):
        return exact[1]
    if number := re.search(r"numbers from 1 to (\d+)", asked):
        return _numbers(int(number[1]))
    if "Which number" in asked:
        return ", ".join(re.findall(r"number is (\d+)", told.everything)) or "You said none."
    if "Which password" in asked:
        return ", ".join(re.findall(r"password is (\w+)", told.system)) or "There is none."
    if "Which colour" in asked:
        return ", ".join(map(_colour, told.images)) or "I see no image."
    return f"I have read: {', '.join(told.results)}" if told.results else "Yes."


def _cut(text: str, stops: list[str]) -> str:
    return text[: min([len(text), *(text.find(stop) for stop in stops if stop in text)])]


def _colour(png: bytes) -> str:
    """The colour of the first pixel of a PNG of 8 bits a channel, looked up as it is read."""
    at, data = 8, b""
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += 12 + length
    red, green, blue = zlib.decompress(data)[1:4]
    return {(255, 0, 0): "red", (0, 255, 0): "green", (0, 0, 255): "blue"}.get((red, green, blue), "mixed")


def understand(request: Received) -> Told:
    """The request of any format."""
    for ending, of in (
        ("/v1/messages", _messages),
        ("/chat/completions", _completions),
        ("/responses", _responses),
    ):
        if request.path.endswith(ending):
            return of(request.body)
    return _gemini(request)


class _Part(NamedTuple):
    """A part of what was said: by the model, or text, a result or an image for it."""

    kind: str
    value: Any = ""


def _told(parts: list[_Part], **others: Any) -> Told:
    spoken = max((place for place, part in enumerate(parts) if part.kind == "model"), default=-1)
    last = parts[spoken + 1 :]
    return Told(
        everything="\n".join(part.value for part in parts if part.kind == "text"),
        texts=[part.value for part in last if part.kind == "text"],
        results=[part.value for part in last if part.kind == "result"],
        images=[part.value for part in last if part.kind == "image"],
        **others,
    )


def _messages(body: Mapping[str, Any]) -> Told:
    def parts() -> Iterator[_Part]:
        for message in body["messages"]:
            for block in message["content"]:
                if message["role"] == "assistant":
                    yield _Part("model")
                elif block["type"] == "tool_result":
                    yield _Part("result", block.get("content", ""))
                elif block["type"] == "image":
                    yield _Part("image", base64.b64decode(block["source"]["data"]))
                else:
                    yield _Part("text", block["text"])

    return _told(
        list(parts()),
        model=body["model"],
        system="\n".join(block["text"] for block in body.get("system", ())),
        tools=[tool["name"] for tool in body.get("tools", ())],
        choice={"any": "required", "none": "none"}.get(body.get("tool_choice", {}).get("type"), "auto"),
        stops=body.get("stop_sequences", []),
        most=body["max_tokens"],
    )


def _completions(body: Mapping[str, Any]) -> Told:
    def parts() -> Iterator[_Part]:
        for message in body["messages"]:
            if message["role"] == "assistant":
                yield _Part("model")
            elif message["role"] == "tool":
                yield _Part("result", message["content"])
            elif message["role"] == "user":
                yield from _parts_of(message["content"], lambda part: part["image_url"]["url"])

    system = (message["content"] for message in body["messages"] if message["role"] == "system")
    return _told(
        list(parts()),
        model=body["model"],
        system="\n".join(
            each if isinstance(each, str) else "\n".join(part["text"] for part in each) for each in system
        ),
        tools=[tool["function"]["name"] for tool in body.get("tools", ())],
        choice=body.get("tool_choice", "auto"),
        stops=body.get("stop", []),
        most=body.get("max_tokens"),
    )


def _responses(body: Mapping[str, Any]) -> Told:
    def parts() -> Iterator[_Part]:
        for item in body["input"]:
            if item.get("type") == "function_call_output":
                yield _Part("result", item["output"])
            elif item.get("role") == "user":
                yield from _parts_of(item["content"], lambda part: part["image_url"])
            else:
                yield _Part("model")

    return _told(
        list(parts()),
        model=body["model"],
        system=body.get("instructions", ""),
        tools=[tool["name"] for tool in body.get("tools", ())],
        choice=body.get("tool_choice", "auto"),
        stops=[],
        most=body.get("max_output_tokens"),
    )


def _parts_of(content: Any, url: Any) -> Iterator[_Part]:
    if isinstance(content, str):
        yield _Part("text", content)
        return
    for part in content:
        if "text" in part:
            yield _Part("text", part["text"])
        else:
            yield _Part("image", base64.b64decode(url(part).partition(";base64,")[2]))


def _gemini(request: Received) -> Told:
    body = request.body

    def parts() -> Iterator[_Part]:
        for content in body["contents"]:
            for part in content["parts"]:
                if content["role"] == "model":
                    yield _Part("model")
                elif "functionResponse" in part:
                    yield _Part("result", " ".join(part["functionResponse"]["response"].values()))
                elif "inlineData" in part:
                    yield _Part("image", base64.urlsafe_b64decode(part["inlineData"]["data"]))
                else:
                    yield _Part("text", part["text"])

    config = body.get("generationConfig", {})
    modes = {"ANY": "required", "NONE": "none"}
    return _told(
        list(parts()),
        model=re.search(r"/models/([^/:]+):", request.path)[1],  # type: ignore[index]
        system="\n".join(part["text"] for part in body.get("systemInstruction", {}).get("parts", ())),
        tools=[each["name"] for tool in body.get("tools", ()) for each in tool["functionDeclarations"]],
        choice=modes.get(body.get("toolConfig", {}).get("functionCallingConfig", {}).get("mode"), "auto"),
        stops=config.get("stopSequences", []),
        most=config.get("maxOutputTokens"),
    )
