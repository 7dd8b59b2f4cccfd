"""A crystal that says what a test wrote down for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from branches.agents.crystal import CrystalError, CrystalRequest, CrystalResponse, Finish, ToolCall, Usage
from branches.agents.gates import EXECUTE
from branches.agents.normalise import http_error, openai_response
from branches.agents.retrying import UNREACHABLE


class Dropped(msgspec.Struct, frozen=True):
    """An answer whose connection broke after this much of its thought and text."""

    text: str
    thinking: str | None = None


Answer = (
    CrystalResponse | CrystalError | Dropped | Callable[[CrystalRequest], CrystalResponse | Awaitable[CrystalResponse]]
)


class ScriptExhausted(AssertionError):
    """A scripted crystal was asked more often than its script has answers."""


class ScriptedCrystal:
    """Answers request after request from a list, and keeps the requests.

    An answer is a response, a `CrystalError` that is raised, what the functions below make, or a function of the
    request, which may be async.
    One instance may serve many entities at once; they then share one script, in the order in which they ask. `usage` is
    that of each response which says none, and `otherwise` is the answer when the script is used up.

        crystal = ScriptedCrystal([calls(("fs.read_text", {"path": "a.txt"})), says("It says milk.")])
    """

    def __init__(
        self, script: Iterable[Answer], *, usage: Usage | None = None, otherwise: Answer | None = None
    ) -> None:
        self._script, self._usage, self._otherwise = list(script), usage, otherwise
        self.requests: list[CrystalRequest] = []

    def __repr__(self) -> str:
        given = min(len(self.requests), len(self._script))
        return f"<ScriptedCrystal {given} of {len(self._script)} answers given>"

    @property
    def remaining(self) -> int:
        """How many answers of the script were not asked for yet."""
        return max(0, len(self._script) - len(self.requests))

    async def invoke(
        self,
        request: CrystalRequest,
        on_text: Callable[[str], None] | None = None,
        on_thought: Callable[[str], None] | None = None,
    ) -> CrystalResponse:
        """The next answer. Raises `ScriptExhausted` when there is none, and the `CrystalError` that stands there."""
        self.requests.append(request)
        answer = self._next(request)
        if isinstance(answer, CrystalError):
            raise answer
        if isinstance(answer, Dropped):
            await _tell(answer.thinking or "", on_thought)
            await _tell(answer.text, on_text)
            raise CrystalError(UNREACHABLE, "the connection broke before the answer was whole")
        if not isinstance(answer, CrystalResponse):
            given = answer(request)
            answer = given if isinstance(given, CrystalResponse) else await given
        if self._usage is not None and answer.usage == Usage():
            answer = replace(answer, usage=self._usage)
        await _tell(answer.thinking or "", on_thought)
        await _tell(answer.content or "", on_text)
        return answer

    def _next(self, request: CrystalRequest) -> Answer:
        if len(self.requests) <= len(self._script):
            return self._script[len(self.requests) - 1]
        if self._otherwise is not None:
            return self._otherwise
        last = request.messages[-1]
        raise ScriptExhausted(
            f"the crystal was asked {len(self.requests)} times, its script has {len(self._script)} answers; "
            f"the last message was {last.role}: {last.content!r}"
        )


def says(
    text: str, *, usage: Usage | None = None, thinking: str | None = None, finish: Finish = "stop"
) -> CrystalResponse:
    """An answer that is text only; with `finish="length"` one that was cut off."""
    return CrystalResponse(content=text, usage=usage or Usage(), thinking=thinking, finish=finish)


def calls(
    *gates: tuple[str, Mapping[str, Any] | str],
    text: str | None = None,
    usage: Usage | None = None,
    thinking: str | None = None,
    finish: Finish = "tool_calls",
) -> CrystalResponse:
    """An answer that calls gates by name; arguments are a mapping, or JSON text as it stands.

    With `finish="length"` it was cut off, in or behind the last call.
    """
    tool_calls = tuple(
        ToolCall(f"call_{n}", gate, given if isinstance(given, str) else msgspec.json.encode(given).decode())
        for n, (gate, given) in enumerate(gates, 1)
    )
    return CrystalResponse(
        content=text, tool_calls=tool_calls, usage=usage or Usage(), thinking=thinking, finish=finish
    )


def finishes(answer: Any) -> CrystalResponse:
    """An answer that calls `done`."""
    return calls(("done", {"answer": answer}))


def runs(code: str, *, usage: Usage | None = None) -> CrystalResponse:
    """An answer that runs code, in a circle whose medium is a language."""
    return calls((EXECUTE, {"code": code}), usage=usage)


def fails(status: int, message: str, *, retry_after: str | None = None) -> CrystalError:
    """The failure of a provider that answers with this HTTP status; `retry_after` is the header as it stands."""
    return http_error(status, message, retry_after=retry_after)


def drops(text: str, *, thinking: str | None = None) -> Dropped:
    """An answer that is cut off after this thought and text: they are streamed, and then the connection breaks."""
    return Dropped(text, thinking)


def answers_openai(raw: Mapping[str, Any]) -> Answer:
    """An answer as a provider of OpenAI's format sends it, normalised as the real crystals do it."""
    return lambda request: openai_response(raw)


def at_once(*answers: Answer) -> list[Answer]:
    """These answers, none of which comes before all of them are asked for: a proof that the askers work together."""
    asked = asyncio.Barrier(len(answers))
    return [_together(answer, asked) for answer in answers]


async def _tell(text: str, tell: Callable[[str], None] | None) -> None:
    """Stream a text, a line at a time."""
    if tell is None:
        return
    for line in text.splitlines(keepends=True):
        tell(line)
        await asyncio.sleep(0)


def _together(answer: Answer, asked: asyncio.Barrier) -> Answer:
    async def give(request: CrystalRequest) -> CrystalResponse:
        await asked.wait()
        return await ScriptedCrystal([answer]).invoke(request)

    return give
