"""The folds of an episode: early turns are shown shorter before a request that would be too long."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from branches.agents.budget import REPLY_TOKENS
from branches.agents.cantrip import Cantrip
from branches.agents.context import EntityContext
from branches.agents.crystal import CrystalError, CrystalRequest, Usage, is_cut, validate
from branches.agents.folding import Fold, Folding, estimate_tokens
from branches.agents.naming import FOLD, fold_id, fold_key, turn_id
from branches.agents.surroundings import Surroundings
from policies import Action, Context, Step, action_result

_CUT = "\n[this summary was cut off here]"
_log = logging.getLogger("coven.agents")


class Folds:
    """What folds one entity's context; after a restart as it was done before it."""

    def __init__(self, cantrip: Cantrip, context: EntityContext, surroundings: Surroundings, run: str) -> None:
        self._cantrip, self._context, self._surroundings, self._run = cantrip, context, surroundings, run
        self._due: Fold | None = None

    def __repr__(self) -> str:
        return f"<Folds of {self._run}, {'none' if self._due is None else 'one'} due>"

    async def before(self, turn: int, ctx: Context) -> None:
        """Fold early turns if this turn's request would be too long."""
        limit: int | None = getattr(self._cantrip.crystal, "context_limit", None)
        options = self._cantrip.folding or (None if limit is None else Folding())
        if options is None:
            return
        payload: dict[str, Any] = {"run": self._run, "turn": turn}
        if self._surroundings.recorded(fold_id(self._run, turn)) is None:
            if self._surroundings.known(turn_id(self._run, turn)):
                return
            self._due = self._context.due(options, limit)
            if self._due is None:
                return
            reserved = self._reserve(turn, self._due)
            payload |= {
                "through": self._due.folded.through,
                "kept": self._due.kept,
                "context_limit": limit,
                "reserved": reserved,
                "messages": len(self._due.request),
            }
        (step,) = await ctx.call(Action(FOLD, payload), key=fold_key(turn))
        told = step.payload
        self._surroundings.budget.settle(fold_id(self._run, turn), msgspec.convert(told.get("usage", {}), Usage))
        self._context.fold(told["kept"], told.get("summary", ""), options, told.get("context_limit"))

    async def make(self, payload: Mapping[str, Any]) -> Step:
        """The effect: what the fold that is due comes to, with a summary by the crystal where one is wanted.

        A crystal that fails to summarise does not end the episode: the turns are named instead.
        """
        due = self._due
        assert due is not None
        summary, usage = "", Usage()
        if due.request:
            request = CrystalRequest(due.request, (), "none", self._cantrip.call.sampling)
            try:
                response = await self._cantrip.crystal.invoke(request, None)
                summary, usage = validate(response, request).content or "", response.usage
                summary += _CUT if summary and is_cut(response.finish) else ""
            except CrystalError as error:
                usage = error.usage
                _log.warning("early turns are folded without a summary: %s", error)
        told = {name: payload[name] for name in ("turn", "through", "kept", "context_limit")}
        return action_result(FOLD, {**told, "summary": summary, "usage": msgspec.to_builtins(usage)})

    def _reserve(self, turn: int, due: Fold) -> int:
        """Tokens for a summary, set aside before it is asked for; where they are not left the turns are named."""
        if not due.request:
            return 0
        tokens = estimate_tokens(due.request) + REPLY_TOKENS
        reserved = self._surroundings.budget.reserve(fold_id(self._run, turn), tokens)
        if reserved is None:
            self._due = replace(due, request=())
        return reserved or 0
