"""A crystal that says what a test wrote down for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec

from branches.agents.crystal import CrystalError, CrystalRequest, CrystalResponse, ToolCall, Usage

Answer = CrystalResponse | CrystalError | Callable[[CrystalRequest], CrystalResponse | Awaitable[CrystalResponse]]


class ScriptExhausted(AssertionError):
    """A scripted crystal was asked more often than its script has answers."""


class ScriptedCrystal:
    """Answers request after request from a list, and keeps the requests.

    An answer is a response, a `CrystalError` that is raised, or a function of the request, which may be async.
    One instance may serve many entities at once; they then share one script, in the order in which they ask.

        crystal = ScriptedCrystal([calls(("fs.read_text", {"path": "a.txt"})), says("It says milk.")])
    """

    def __init__(self, script: Iterable[Answer]) -> None:
        self._script = list(script)
        self.requests: list[CrystalRequest] = []

    def __repr__(self) -> str:
        return f"<ScriptedCrystal {len(self.requests)} of {len(self._script)} answers given>"

    async def invoke(self, request: CrystalRequest, on_text: Callable[[str], None] | None = None) -> CrystalResponse:
        """The next answer. Raises `ScriptExhausted` when there is none, and the `CrystalError` that stands there."""
        self.requests.append(request)
        if len(self.requests) > len(self._script):
            last = request.messages[-1]
            raise ScriptExhausted(
                f"the crystal was asked {len(self.requests)} times, its script has {len(self._script)} answers; "
                f"the last message was {last.role}: {last.content!r}"
            )
        answer = self._script[len(self.requests) - 1]
        if isinstance(answer, CrystalError):
            raise answer
        if not isinstance(answer, CrystalResponse):
            given = answer(request)
            answer = given if isinstance(given, CrystalResponse) else await given
        if on_text is not None and answer.content:
            for word in answer.content.splitlines(keepends=True):
                on_text(word)
                await asyncio.sleep(0)
        return answer


def says(text: str, *, usage: Usage | None = None, thinking: str | None = None) -> CrystalResponse:
    """An answer that is text only."""
    return CrystalResponse(content=text, usage=usage or Usage(), thinking=thinking)


def calls(
    *gates: tuple[str, Mapping[str, Any] | str],
    text: str | None = None,
    usage: Usage | None = None,
    thinking: str | None = None,
) -> CrystalResponse:
    """An answer that calls gates by name; arguments are a mapping, or JSON text as it stands."""
    tool_calls = tuple(
        ToolCall(f"call_{n}", gate, given if isinstance(given, str) else msgspec.json.encode(given).decode())
        for n, (gate, given) in enumerate(gates, 1)
    )
    return CrystalResponse(content=text, tool_calls=tool_calls, usage=usage or Usage(), thinking=thinking)


def finishes(answer: str) -> CrystalResponse:
    """An answer that calls `done`."""
    return calls(("done", {"answer": answer}))
