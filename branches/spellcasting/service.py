"""The Spellcasting service: every invocation gets exactly one outcome, and no spell is silently cast twice."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import cast as type_cast

from msgspec.structs import replace

from branches.claims import Claims
from branches.place import kind_of, told
from branches.service import first_error, is_being_cancelled
from branches.settled import SETTLED_EVERY, Settled
from branches.spellcasting.calls import SETTLED_SESSION, Call, is_call, open_calls
from branches.spellcasting.entries import SpellFault, SpellInvocation, SpellResult, SpellsSettled, SpellStarted
from branches.spellcasting.registry import SpellRegistry
from branches.spellcasting.spell import Casting, Spell, SpellFailed, Substrate, WithFiles
from journals import (
    Claim,
    ClaimLost,
    Entry,
    IdConflict,
    InvalidEntry,
    InvalidName,
    Journal,
    Record,
    Unreadable,
    derive_id,
)

_log = logging.getLogger("coven.spellcasting")


class SpellcastingService:
    """One spellcasting instance over its journal and its substrates.

    Each `SpellInvocation` of the `in` lane becomes `SpellStarted`, a cast, and one `SpellResult` or `SpellFault`.
    Sessions do not wait for each other; within one, calls run in order. A call that was started and has no outcome
    is in doubt, and its fault says so.

    A spell that is idempotent is cast without a start: whether it had begun or not, after a crash it is cast again
    under its old id, so a start would tell nobody anything, and would cost a write that is waited for.

    `substrates` are those that are configured, by name; they belong to the caller, who closes them. `spells` are all
    that are known, so that a spell of a substrate that is not configured faults as `unavailable` and not as unknown.
    `owner` names this service in its claims. Whatever a substrate raises is the fault of that one call, and of no
    other; what is no `SpellFailed` is logged with its place, since somebody has to mend it.
    """

    def __init__(
        self,
        name: str,
        journal: Journal,
        substrates: Mapping[str, Substrate],
        spells: Mapping[str, type[Spell]],
        *,
        owner: str,
        settled_every: int = SETTLED_EVERY,
    ) -> None:
        self._name, self._journal = name, journal
        self._substrates = dict(substrates)
        self._registry = SpellRegistry(spells, self._substrates)
        self._claims = Claims(journal, owner)
        self._settled = Settled(journal, self._claims, SpellsSettled, SETTLED_SESSION, every=settled_every)
        self._waiting: dict[str, deque[Call]] = {}
        self._lost: set[str] = set()

    def __repr__(self) -> str:
        return f"<SpellcastingService {self._name} {self._settled.waiting} calls in {len(self._waiting)} sessions>"

    @property
    def name(self) -> str:
        """The name in the configuration."""
        return self._name

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until cancelled; casts that are under way are then cancelled too. Raises what the journal raises."""
        for state in (self._waiting, self._lost):
            state.clear()
        await self._claims.begin(SETTLED_SESSION)
        try:
            async with asyncio.TaskGroup() as tasks:
                for call in await open_calls(self._settled):
                    self._take(call, tasks)
                ready()
                seen, kinds = self._settled.seen, [SpellInvocation.kind()]
                async with aclosing(self._journal.tail(seen, kinds=kinds)) as records:
                    async for record in records:
                        asks = is_call(record)
                        self._settled.see(record.position, asks=asks)
                        if asks:
                            self._take(Call(record), tasks)
        except BaseExceptionGroup as group:
            raise first_error(group) from None

    def _take(self, call: Call, tasks: asyncio.TaskGroup) -> None:
        """Queue the call behind the others of its session."""
        session = call.record.session
        if session in self._lost:
            return
        waiting = self._waiting.get(session)
        if waiting is not None:
            waiting.append(call)
            return
        waiting = self._waiting[session] = deque([call])
        tasks.create_task(self._work(session, waiting), name=f"{self._name}: {session}")

    async def _work(self, session: str, waiting: deque[Call]) -> None:
        while waiting and not is_being_cancelled():  # a substrate may have kept to itself that we are to stop
            call = waiting.popleft()
            try:
                await self._answer(call)
            except ClaimLost as lost:
                if await self._claims.lost_to_older(lost):
                    _log.warning("%s takes session %r back: %s", self._name, session, lost)
                    self._claims.forget(session)
                    waiting.appendleft(replace(call, waited=True))  # how far it came is in the journal
                    continue
                _log.warning("%s leaves session %r alone until its restart: %s", self._name, session, lost)
                self._lost.add(session)
                break
            except (InvalidEntry, InvalidName) as error:  # what somebody else wrote around it cannot be written again
                _log.error(
                    "%s, session %r: the invocation at position %d can have no outcome: %s",
                    self._name,
                    session,
                    call.record.position,
                    error,
                )
            await self._settled.close(call.record.position)
        del self._waiting[session]

    async def _answer(self, call: Call) -> None:
        """Bring one call to its outcome."""
        record, invocation = call.record, call.record.entry
        if not isinstance(invocation, SpellInvocation):
            await self._refuse_unreadable(record)
            return
        claim = await self._claims.take(record.session)
        try:
            spell = self._registry.resolve(invocation.spell, invocation.arguments)
        except SpellFailed as failure:
            # What was started under another configuration may have happened, whatever we can do with it now.
            await self._record(_in_doubt(invocation) if call.started else self._refusal(call, failure), record, claim)
            return
        if spell.idempotent:
            position = await self._journal.position_of(_outcome_id(invocation.correlation_id), expect=claim)
            if position is not None:
                self._note_reuse(record, "this call id has its outcome already; nothing is cast", position)
                return
            await self._record(await self._cast(spell, invocation, record.session), record, claim)
            return
        entry = SpellStarted(correlation_id=invocation.correlation_id, spell=invocation.spell)
        id = derive_id("started", invocation.correlation_id)
        try:
            started = await self._journal.append(entry, session=record.session, id=id, cause=record, expect=claim)
        except IdConflict as conflict:
            self._note_reuse(record, "this call id belongs to another spell; nothing is cast", conflict.position)
            return
        if started.created:
            await self._record(await self._cast(spell, invocation, record.session), record, claim)
        else:
            await self._record(_in_doubt(invocation), record, claim)

    def _refusal(self, call: Call, failure: SpellFailed) -> SpellFault:
        """Why it cannot be cast now; and that an earlier service may have cast it, where no start would tell so."""
        invocation = type_cast("SpellInvocation", call.record.entry)
        if call.waited and self._registry.is_repeatable(invocation.spell) is not False:
            failure = SpellFailed(
                failure.code,
                f"{failure}. The call is older than this start of the service: it may have been cast before",
            )
        return _fault(invocation, failure)

    async def _cast(self, spell: Spell, invocation: SpellInvocation, session: str) -> SpellResult | SpellFault:
        casting = Casting(id=invocation.correlation_id, session=session, grants=invocation.grants)
        limit = asyncio.timeout(spell.max_seconds)
        try:
            async with limit:
                result = await self._substrates[spell.substrate()].cast(spell, casting)
        except SpellFailed as failure:
            _refuse_cancelled(failure)
            return _fault(invocation, failure)
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            return _fault(invocation, SpellFailed("failed", _unless_repeatable(spell, "its own work was cancelled")))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary to leaves: it is the fault of this call
            _refuse_cancelled(error)
            if limit.expired():
                text = f"it took longer than {spell.max_seconds:g} s and was cancelled"
                return _fault(invocation, SpellFailed("timeout", _unless_repeatable(spell, text)))
            _log.error("%s, session %r: %s raised %s", self._name, session, invocation.spell, told(error))
            _log.debug("the failure of %s in full", invocation.spell, exc_info=error)
            return _fault(invocation, SpellFailed("failed", _unless_repeatable(spell, f"it raised {kind_of(error)}")))
        if isinstance(result, WithFiles):
            return SpellResult(
                correlation_id=invocation.correlation_id, result=result.result, attachments=result.attachments
            )
        return SpellResult(correlation_id=invocation.correlation_id, result=result)

    async def _record(self, outcome: SpellResult | SpellFault, cause: Record[Entry], claim: Claim) -> None:
        """Append the outcome. The first one stands: result and fault of a call have one and the same id."""
        id = _outcome_id(outcome.correlation_id)
        try:
            await self._journal.append(outcome, session=cause.session, id=id, cause=cause, expect=claim)
        except InvalidEntry as error:
            if isinstance(outcome, SpellFault):
                raise
            text = f"the spell was cast, but its result cannot be recorded: {error}"
            await self._record(SpellFault(correlation_id=outcome.correlation_id, error=text), cause, claim)
        except IdConflict as conflict:
            self._note_reuse(cause, "an outcome is already recorded; this one is dropped", conflict.position)

    def _note_reuse(self, call: Record[Entry], what: str, first: int) -> None:
        _log.warning(
            "%s, session %r: %s (the invocation stands at position %d, what was recorded first at %d)",
            self._name,
            call.session,
            what,
            call.position,
            first,
        )

    async def _refuse_unreadable(self, record: Record[Entry]) -> None:
        """An invocation that cannot be decoded still gets its fault, if its envelope says whose call it is."""
        reason = record.entry.reason if isinstance(record.entry, Unreadable) else f"it is a {record.kind}"
        _log.warning(
            "%s, session %r: the invocation at position %d cannot be read: %s",
            self._name,
            record.session,
            record.position,
            reason,
        )
        if record.correlation_id is not None:
            fault = SpellFault(correlation_id=record.correlation_id, error=f"the invocation cannot be read: {reason}")
            await self._record(fault, record, await self._claims.take(record.session))


def _refuse_cancelled(error: BaseException) -> None:
    """Whatever a substrate makes of it that it is cancelled by us is no outcome: the next start goes on."""
    if is_being_cancelled():
        raise asyncio.CancelledError from error


def _outcome_id(correlation_id: str) -> str:
    return derive_id("outcome", correlation_id)


def _unless_repeatable(spell: Spell, text: str) -> str:
    """What happened to a cast that did not end as it should, and that it may have done something until then."""
    doubt = "" if spell.idempotent else ". It may have happened in full, in part or not at all"
    return f"{spell.name()}: {text}{doubt}"


def _fault(invocation: SpellInvocation, failure: SpellFailed) -> SpellFault:
    text = str(failure).encode("utf-8", "replace").decode()  # a lone surrogate cannot be recorded
    return SpellFault(correlation_id=invocation.correlation_id, error=text, code=failure.code)


def _in_doubt(invocation: SpellInvocation) -> SpellFault:
    text = (
        f"{invocation.spell} was started, and the service stopped before its outcome was recorded: it may have "
        "happened in full, in part or not at all. It was not repeated; look at what there is before calling it again"
    )
    return SpellFault(correlation_id=invocation.correlation_id, error=text, code="in_doubt")
