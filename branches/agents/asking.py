"""One request to an entity's crystal, and what comes of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from branches.agents.budget import REPLY_TOKENS
from branches.agents.cantrip import Cantrip
from branches.agents.circle import GateCall
from branches.agents.context import EntityContext
from branches.agents.crystal import CrystalError, CrystalRequest, CrystalResponse, Usage, invoke, validate
from branches.agents.gates import GateDefinition
from branches.agents.naming import stream_id
from branches.agents.retrying import UNREACHABLE, MayPass
from branches.agents.steps import Said, failure, utterance
from branches.agents.surroundings import Surroundings
from branches.service import is_being_cancelled
from policies import Context, Step


class Asking:
    """Asks the crystal what its entity's context comes to. `tool` is the only one offered, where there is a medium."""

    def __init__(
        self, cantrip: Cantrip, context: EntityContext, tool: GateDefinition | None, surroundings: Surroundings
    ) -> None:
        self._cantrip, self._context, self._surroundings = cantrip, context, surroundings
        self._tools = cantrip.circle.available if tool is None else (tool,)
        self._wasted = Usage()

    def __repr__(self) -> str:
        return f"<Asking {self._cantrip.crystal!r} about {self._context!r}>"

    def estimate(self) -> int:
        """Tokens that the next request and its answer may come to."""
        return self._context.tokens + (self._cantrip.call.sampling.max_tokens or REPLY_TOKENS)

    async def ask(self, ctx: Context) -> Step:
        """The effect: ask the crystal once. What it may be expected to fail with is data.

        Raises `MayPass` for what is to be tried again. What that has used is told with the attempt that is the last.
        """
        call = self._cantrip.call
        request = CrystalRequest(self._context.messages, self._tools, call.tool_choice, call.sampling)
        open_stream = self._surroundings.open_stream
        stream = None if open_stream is None else open_stream(stream_id(ctx.id, ctx.attempt), False)
        thought = None if open_stream is None else open_stream(stream_id(ctx.id, ctx.attempt, thought=True), True)
        started = time.perf_counter()
        try:
            on_text, on_thought = (each if each is None else each.write for each in (stream, thought))
            response = await self._invoke(request, on_text, on_thought)
        except CrystalError as error:
            retry, used = self._cantrip.retry, self._used(error.usage)
            if retry.allows(error, ctx.attempt):
                self._wasted = used
                raise MayPass(error) from error
            readable = retry.told(error).encode("utf-8", "replace").decode()
            return failure(error.code, readable, _milliseconds_since(started), used)
        finally:
            for each in (thought, stream):
                if each is not None and each.begun:
                    each.complete()
        said = Said(
            content=response.content,
            tool_calls=response.tool_calls,
            usage=self._used(response.usage),
            thinking=response.thinking,
            thought_stream=thought.id if thought is not None and thought.begun else None,
            duration_ms=_milliseconds_since(started),
            first=self._first_call(response),
            model=response.model,
            opaque=response.opaque,
            finish=response.finish,
        )
        return utterance(said)

    def _used(self, usage: Usage) -> Usage:
        """These tokens, and those of the attempts before that failed."""
        wasted, self._wasted = self._wasted, Usage()
        return wasted + usage

    async def _invoke(
        self,
        request: CrystalRequest,
        on_text: Callable[[str], None] | None,
        on_thought: Callable[[str], None] | None,
    ) -> CrystalResponse:
        """A response that keeps the contract. Raises `CrystalError`, also where the request was cancelled in itself."""
        try:
            return validate(await invoke(self._cantrip.crystal, request, on_text, on_thought), request)
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            raise CrystalError(UNREACHABLE, "the crystal's own work on the request was cancelled") from None

    def _first_call(self, response: CrystalResponse) -> dict[str, Any] | None:
        """The arguments of the first call, if all that comes next is that others are asked to do it.

        It is then recorded together with the utterance: one write less to wait for in every turn. The loop finds the
        call recorded, as it does after a restart.
        """
        circle, calls = self._cantrip.circle, response.tool_calls
        intended = next(circle.read_all(calls, response.finish)) if calls and calls[0].arguments else None
        if not isinstance(intended, GateCall) or circle.is_guarded(intended.gate):
            return None
        if any(gate.name == intended.gate for gate in circle.outward):
            return dict(intended.arguments)
        return None


def _milliseconds_since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)
