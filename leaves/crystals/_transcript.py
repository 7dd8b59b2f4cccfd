"""The conversation as providers insist on it: roles alternate, and every call is followed by its result.

What the loop shows is nearly so already. What is not comes from elsewhere: a fork, a fold, an episode that was cut
off, another provider's ids. Pure; what was said never changes what stands before it, so that caches of it hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Final, NamedTuple

from branches.agents.crystal import Message, ToolCall
from branches.attachment import Attachment

NO_RESULT: Final = "Error: no_result: there is no result of this call"
BEGIN: Final = "Begin."
GO_ON: Final = "Go on."
_UNSAFE = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_ID = 64


class Result(NamedTuple):
    """What came of a call."""

    id: str
    gate: str
    content: str
    is_error: bool


class Heard(NamedTuple):
    """What the model is told: the results of the calls just before it, in their order, then images and texts."""

    results: tuple[Result, ...] = ()
    texts: tuple[str, ...] = ()
    images: tuple[Attachment, ...] = ()


class Said(NamedTuple):
    """What a model said. `opaque` is its own, see `CrystalResponse`; None where it would not fit any more."""

    content: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    model: str | None = None
    opaque: str | None = None


class Exchange(NamedTuple):
    """One thing heard, and what was said to it; the last one is waiting for that."""

    heard: Heard
    said: Said | None


class Transcript(NamedTuple):
    """A conversation that begins and ends with something heard. `system` are the system messages, in their order."""

    system: tuple[str, ...]
    exchanges: tuple[Exchange, ...]


def transcript(messages: Sequence[Message]) -> Transcript:
    """The messages as alternating roles; ids are unique and have letters, digits, `-` and `_` only, at most 64."""
    system = tuple(each.content for each in messages if each.role == "system" and each.content)
    ids = _Ids()
    exchanges: list[Exchange] = []
    heard = Heard()
    for said, following in _turns([each for each in messages if each.role != "system"]):
        texts = [*heard.texts, *(each.content for each in following.before if each.content and each.content.strip())]
        images = [*heard.images, *(image for each in following.before for image in each.images)]
        heard = Heard(heard.results, tuple(texts), tuple(images))
        if said is None:
            break
        if not said.content and not said.tool_calls:
            continue
        if not heard.results and not heard.texts:
            heard = Heard(texts=(GO_ON if exchanges else BEGIN,), images=heard.images)
        renamed = tuple(ids.rename(call) for call in said.tool_calls)
        exchanges.append(Exchange(heard, said._replace(tool_calls=renamed)))
        heard = Heard(_results(said.tool_calls, renamed, following.results))
    if not heard.results and not heard.texts:
        heard = Heard(texts=(GO_ON if exchanges else BEGIN,), images=heard.images)
    return Transcript(system, (*exchanges, Exchange(heard, None)))


class _Around(NamedTuple):
    """What users said before an utterance, and the tool messages behind it."""

    before: tuple[Message, ...]
    results: tuple[Message, ...]


def _turns(messages: list[Message]) -> Iterator[tuple[Said | None, _Around]]:
    """Each utterance with what stands around it; at the end None with what no utterance has followed."""
    at = 0
    while at < len(messages):
        start = at
        while at < len(messages) and messages[at].role != "assistant":
            at += 1
        before = tuple(each for each in messages[start:at] if each.role == "user")
        if at == len(messages):
            yield None, _Around(before, ())
            return
        spoken = [messages[at]]
        at += 1
        while at < len(messages) and messages[at].role == "assistant" and not spoken[-1].tool_calls:
            spoken.append(messages[at])
            at += 1
        until = next((n for n in range(at, len(messages)) if messages[n].role == "assistant"), len(messages))
        results = tuple(each for each in messages[at:until] if each.role == "tool")
        yield _joined(spoken), _Around(before, results)


def _joined(spoken: list[Message]) -> Said:
    """Utterances that follow each other without an answer, as one."""
    first, last = spoken[0], spoken[-1]
    if first is last:
        opaque = first.opaque if first.content or first.tool_calls else None
        return Said(_text(first.content), first.tool_calls, first.model, opaque)
    return Said(_text("\n\n".join(each.content for each in spoken if each.content)), last.tool_calls)


def _text(content: str | None) -> str | None:
    return content if content and content.strip() else None


def _results(calls: Iterable[ToolCall], renamed: Iterable[ToolCall], given: Sequence[Message]) -> tuple[Result, ...]:
    waiting = list(given)
    results: list[Result] = []
    for call, new in zip(calls, renamed, strict=True):
        found = next((n for n, each in enumerate(waiting) if each.tool_call_id == call.id), None)
        if found is None:
            results.append(Result(new.id, call.gate, NO_RESULT, True))
        else:
            message = waiting.pop(found)
            results.append(Result(new.id, call.gate, message.content or "", message.is_error))
    return tuple(results)


class _Ids:
    """Ids as every provider takes them; one that was used before gets a number."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def rename(self, call: ToolCall) -> ToolCall:
        wanted = _UNSAFE.sub("_", call.id)[:_LONGEST_ID] or "call"
        numbered = (f"{wanted[: _LONGEST_ID - 8]}_{number}" for number in count(2))
        id = wanted if wanted not in self._used else next(each for each in numbered if each not in self._used)
        self._used.add(id)
        return call if id == call.id else ToolCall(id, call.gate, call.arguments)
