"""An episode: the loop on one intent, as the orchestrator of a run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from branches.agents.cantrip import Cantrip
from branches.agents.chunks import Stream
from branches.agents.circle import Done, GateCall, Observation
from branches.agents.codec import Said, ending, failure, utterance
from branches.agents.context import EntityContext
from branches.agents.crystal import CrystalError, CrystalRequest, ToolCall, validate
from branches.agents.internal import EntityCast
from branches.agents.naming import CRYSTAL, LOOP, gate_key, turn_key
from policies import Action, Context, PolicyKind, PolicyRegistry, Step


class Episode:
    """The loop of one intent over an entity's context.

    Every request to the crystal and every gate call goes through the run's context, so whatever was recorded is not
    done again; all else here is computed from what they gave. `open_stream` makes the stream of one utterance's text
    by its id, where somebody wants to watch.
    """

    def __init__(
        self,
        cantrip: Cantrip,
        cast: EntityCast,
        context: EntityContext,
        *,
        tool_timeout_s: float,
        open_stream: Callable[[str], Stream] | None = None,
    ) -> None:
        self._cantrip, self._cast, self._context, self._open_stream = cantrip, cast, context, open_stream
        self._called: Counter[str] = Counter()
        self._errors = 0
        self.registry = PolicyRegistry()
        self.registry.register(LOOP, kind=PolicyKind.ORCHESTRATOR, description="the loop")(self.loop)
        self.registry.register(CRYSTAL, repeatable=True, description="the model")(self.ask)
        for gate in cantrip.circle.outward:
            self.registry.register_awaited(
                gate.name, timeout_s=tool_timeout_s, description=gate.description, input_schema=gate.parameters
            )

    def __repr__(self) -> str:
        return f"<Episode {self._context!r} calls={self._called.total()} errors={self._errors}>"

    def action(self, intent: str) -> Action:
        """The root action of the run."""
        return Action(LOOP, {"intent": intent}, frozenset(self.registry.names) - {LOOP})

    async def loop(self, action: Action, ctx: Context) -> list[Step]:
        """Turn after turn, until the entity is done, or a ward or a failure ends it."""
        self._context.begin(self._cast, action.payload["intent"])
        max_turns = self._cantrip.circle.wards.max_turns
        assert max_turns is not None, "a cantrip has a truncation ward"
        for turn in range(1, max_turns + 1):
            ended = await self._turn(turn, ctx)
            if ended is not None:
                return [ended]
        return [ending(self._summary(max_turns), "truncated", "max_turns")]

    async def ask(self, action: Action, ctx: Context) -> list[Step]:
        """The effect: ask the crystal once. What it may be expected to fail with is data."""
        call = self._cantrip.call
        request = CrystalRequest(self._context.messages, self._cantrip.circle.gates, call.tool_choice)
        stream = None if self._open_stream is None else self._open_stream(f"{ctx.id}.{ctx.attempt}")
        started = time.perf_counter()
        try:
            response = await self._cantrip.crystal.invoke(request, None if stream is None else stream.write)
            validate(response, request)
        except CrystalError as error:
            readable = str(error).encode("utf-8", "replace").decode()
            return [failure(error.code, readable, _milliseconds_since(started))]
        finally:
            if stream is not None:
                stream.complete()
        return [
            utterance(
                Said(
                    content=response.content,
                    tool_calls=response.tool_calls,
                    usage=response.usage,
                    thinking=response.thinking,
                    duration_ms=_milliseconds_since(started),
                    first=self._first_call(response.tool_calls),
                )
            )
        ]

    def _first_call(self, tool_calls: tuple[ToolCall, ...]) -> dict[str, Any] | None:
        """The arguments of the first call, if all that comes next is that others are asked to do it.

        It is then recorded together with the utterance: one write less to wait for in every turn. The loop finds the
        call recorded, as it does after a restart.
        """
        intended = self._cantrip.circle.read(tool_calls[0]) if tool_calls else None
        if isinstance(intended, GateCall) and self.registry[tool_calls[0].gate].function is None:
            return dict(intended.arguments)
        return None

    async def _turn(self, turn: int, ctx: Context) -> Step | None:
        """One turn; gives how the episode ends, if it does here."""
        context, circle = self._context, self._cantrip.circle
        context.request()
        text_ends = not self._cantrip.call.require_done_tool
        payload = {
            "turn": turn,
            "context": context.digest,
            "messages": len(context.messages),
            "text_ends": text_ends,
        }
        (step,) = await ctx.call(Action(CRYSTAL, payload), key=turn_key(turn))
        if step.is_error:
            return ending(f"I could not go on: {step.payload['message']}", "failed")
        said = msgspec.convert(step.payload, Said)
        context.utter(said.content, said.tool_calls)
        for index, tool_call in enumerate(said.tool_calls):
            intended = circle.read(tool_call)
            self._called[tool_call.gate] += 1
            if isinstance(intended, Done):
                context.observe(intended.observation)
                return ending(intended.answer, "terminated")
            if isinstance(intended, Observation):
                observation = intended
            else:
                action = Action(tool_call.gate, intended.arguments)
                (outcome,) = await ctx.call(action, key=gate_key(turn, index))
                observation = intended.observation(outcome)
            self._errors += observation.is_error
            context.observe(observation)
        if not said.tool_calls and text_ends:
            return ending(said.content or "", "terminated")
        return None

    def _summary(self, turns: int) -> str:
        """What was accomplished before the ward cut the entity off."""
        calls = ", ".join(f"{gate} ({times})" for gate, times in self._called.items()) or "none"
        errors = f" {self._errors} of them failed." if self._errors else ""
        return f"I was stopped after {turns} turns, the limit here. Gates called until then: {calls}.{errors}"


def _milliseconds_since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)
