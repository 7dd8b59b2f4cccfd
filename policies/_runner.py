"""The runner: how runs are begun, gone on with, told of events, and looked at. Policies never see it."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast

import msgspec

from journals import Claim, Entry, IdConflict, Journal, Lane, MemoryStore, Record, Unreadable, derive_id
from policies._action import Action
from policies._arguments import ArgumentsInvalid
from policies._clock import Clock, SystemClock
from policies._codec import Call
from policies._entries import EventSignalled, PolicyReturned, RunStarted, SeedStep, run_registry
from policies._errors import (
    InvalidPayload,
    NonDeterminismError,
    ReplayEnded,
    RunConflict,
    RunUnreadable,
    UnknownPolicy,
    UnknownRun,
)
from policies._fold import fold, unfold
from policies._freeze import fingerprint, freeze
from policies._ledger import Ledger
from policies._listener import Listener
from policies._recorder import Recorder
from policies._registry import PolicyRegistry
from policies._run import Run
from policies._run_codec import RunCodec
from policies._step import Step


async def run(
    policy: str,
    payload: Mapping[str, Any],
    registry: PolicyRegistry,
    ledger: Iterable[Step] = (),
    *,
    journal: Journal | None = None,
    run_id: str | None = None,
    actions: Collection[str] | None = None,
    clock: Clock | None = None,
    owner: str | None = None,
) -> Ledger:
    """Run a policy to its end and give the ledger of the whole run: what it began with, every call, every outcome.

    `actions` is the ceiling: what the policy and all that it calls may call, by default all that is registered.

    With a `journal` (opened with `run_registry()`) the run survives: the same call again, here or on another machine,
    goes on where the journal ends, and gives a finished run's ledger without running anything. Who goes on takes the
    run over: whoever had it before gets `ClaimLost`. The `actions` of its beginning stay what policies see; those of
    whoever goes on can only take some away.

    Without a journal the ledger itself is what survives: given the ledger of an earlier run of the same policy and
    payload, or its beginning, what stands there is not done again. Any other ledger is what the policy begins with,
    its `ctx.get_ledger()`.

    Raises `UnknownPolicy`, `InvalidPayload`, `RunConflict` when the run id names something else, `ClaimLost`,
    `NonDeterminismError`, what the journal raises, and whatever a policy raises; what was recorded is safe.
    """
    info = registry[policy]
    payload = freeze(payload)
    if info.arguments is not None:
        try:
            info.arguments.read(payload)
        except ArgumentsInvalid as error:
            raise InvalidPayload(f"{policy!r} does not take it: {error}") from error
    for name in actions or ():
        if name not in registry:
            raise UnknownPolicy(name, registry.names)
    clock = SystemClock() if clock is None else clock
    if journal is not None and run_id is None:
        raise ValueError("a run in a journal needs a run_id, by which it is found again")
    run_id = run_id or derive_id("run", policy, fingerprint(payload))
    unfolded = unfold(ledger, _root_id(run_id), clock.now())
    started = RunStarted(
        policy=policy,
        payload=dict(payload),
        actions=tuple(sorted(registry.names if actions is None else actions)),
        ledger=tuple(map(SeedStep.of, unfolded.seed)),
    )
    if journal is not None:
        await _start(journal, run_id, started)
        return await _go_on(journal, run_id, registry, actions, clock, owner)
    async with MemoryStore(clock=clock.now) as store:
        memory = await store.open("runs", run_registry())
        await _start(memory, run_id, started)
        claim = await memory.claim(run_id, _owner(owner))
        for id, entry in unfolded.entries:
            await memory.append(entry, session=run_id, id=id, expect=claim)
        return await _go_on(memory, run_id, registry, actions, clock, owner)


async def resume(
    run_id: str,
    registry: PolicyRegistry,
    *,
    journal: Journal,
    actions: Collection[str] | None = None,
    clock: Clock | None = None,
    owner: str | None = None,
) -> Ledger:
    """Go on with a run that was begun already, knowing no more than its id; see `run`. Raises `UnknownRun`."""
    return await _go_on(journal, run_id, registry, actions, SystemClock() if clock is None else clock, owner)


async def signal(
    run_id: str, name: str, payload: Mapping[str, Any], *, journal: Journal, id: str | None = None
) -> Record[Entry]:
    """Tell a run that something has happened; it may be waiting for it, or wait for it later.

    Each signal answers one waiting. Said again with the same `id` it is the same signal. Raises `UnknownRun`,
    `InvalidPayload`, and what `Journal.append` raises.
    """
    async with aclosing(journal.read(session=run_id, kinds=[RunStarted.kind()])) as records:
        if await anext(records, None) is None:
            raise UnknownRun(run_id, journal.name)
    entry = EventSignalled(event=name, payload=dict(freeze(payload)))
    return (await journal.append(entry, session=run_id, id=id)).record


async def read_ledger(run_id: str, *, journal: Journal) -> Ledger:
    """The ledger of a run as far as it has come. Nothing runs. Raises `UnknownRun`."""
    return _folded(run_id, await _read(journal, run_id))


async def replay(run_id: str, registry: PolicyRegistry, *, journal: Journal) -> Ledger:
    """Run a run's orchestrators once more over what is recorded, and give its ledger.

    No effect runs and nothing is written: this says whether today's code still does what was recorded. Raises
    `NonDeterminismError` if it does not, and `UnknownRun`.
    """
    records = await _read(journal, run_id)
    recorder = Recorder(_root_id(run_id), journal, RunCodec(), claim=None, cause=records[0])
    for record in records:
        recorder.observe(record)
    root, seed = _root(run_id, records)
    try:
        await Run(root, registry, recorder, seed=seed, again=True).execute()
    except ReplayEnded as end:
        if recorder.root.outcome is not None:
            raise NonDeterminismError(root.id, "nothing more", end.does) from end
    return _folded(run_id, records)


async def open_runs(*, journal: Journal) -> list[str]:
    """The ids of the runs that have not ended, the oldest first. Reads the whole journal."""
    found: dict[str, None] = {}
    async for record in journal.read(kinds=[RunStarted.kind(), PolicyReturned.kind()]):
        if isinstance(record.entry, RunStarted):
            found[record.session] = None
        elif _is_end(record):
            found.pop(record.session, None)
    return list(found)


def _root_id(run_id: str) -> str:
    return derive_id("run", run_id)


def _owner(owner: str | None) -> str:
    return f"{platform.node()}:{os.getpid()}" if owner is None else owner


async def _start(journal: Journal, run_id: str, started: RunStarted) -> None:
    """Record that the run is to be, or find that it was recorded just so."""
    try:
        await journal.append(started, session=run_id, id=_root_id(run_id))
    except IdConflict:
        recorded = _started(await _read(journal, run_id))
        for what in ("policy", "payload", "ledger"):
            then, now = (freeze(msgspec.to_builtins(getattr(entry, what))) for entry in (recorded, started))
            if then != now:
                raise RunConflict(run_id, what, then, now) from None


async def _go_on(
    journal: Journal,
    run_id: str,
    registry: PolicyRegistry,
    actions: Collection[str] | None,
    clock: Clock,
    owner: str | None,
) -> Ledger:
    records = await _read(journal, run_id)
    if not any(_is_end(record) for record in records):
        claim = await journal.claim(run_id, _owner(owner))
        records += await _read_on(journal, records)  # what an older owner wrote until we claimed it
        await _execute(journal, run_id, registry, records, claim, actions, clock)
        records += await _read_on(journal, records)
    return _folded(run_id, records)


async def _execute(
    journal: Journal,
    run_id: str,
    registry: PolicyRegistry,
    records: list[Record[Entry]],
    claim: Claim,
    actions: Collection[str] | None,
    clock: Clock,
) -> None:
    recorder = Recorder(_root_id(run_id), journal, RunCodec(), claim=claim, cause=records[0])
    listener = Listener(journal, recorder, records)
    root, seed = _root(run_id, records)
    ceiling = root.action.actions if actions is None else root.action.actions & frozenset(actions)
    run = Run(
        root,
        registry,
        recorder,
        clock,
        seed=seed,
        ceiling=ceiling,
        listen=listener.listen,
        catch_up=listener.catch_up,
    )
    try:
        await run.execute()
    finally:
        await listener.close()


async def _read(journal: Journal, run_id: str) -> list[Record[Entry]]:
    """Everything of a run, from its beginning. Raises `UnknownRun`, `RunUnreadable`."""
    records = [_readable(run_id, record) async for record in journal.read(session=run_id)]
    while records and not isinstance(records[0].entry, RunStarted):
        del records[0]
    if not records:
        raise UnknownRun(run_id, journal.name)
    return records


async def _read_on(journal: Journal, records: Sequence[Record[Entry]]) -> list[Record[Entry]]:
    run_id, after = records[0].session, records[-1].position
    return [_readable(run_id, record) async for record in journal.read(after=after, session=run_id)]


def _readable(run_id: str, record: Record[Entry]) -> Record[Entry]:
    if isinstance(record.entry, Unreadable):
        raise RunUnreadable(run_id, record.entry.of_kind, record.entry.reason)
    return record


def _started(records: Sequence[Record[Entry]]) -> RunStarted:
    return cast("RunStarted", records[0].entry)


def _is_end(record: Record[Entry]) -> bool:
    entry = record.entry
    return isinstance(entry, PolicyReturned) and record.lane is Lane.OUT and entry.call == _root_id(record.session)


def _root(run_id: str, records: Sequence[Record[Entry]]) -> tuple[Call, Ledger]:
    started = _started(records)
    action = Action(started.policy, started.payload, frozenset(started.actions))
    return Call(_root_id(run_id), "", "", action), Ledger(step.step for step in started.ledger)


def _folded(run_id: str, records: Sequence[Record[Entry]]) -> Ledger:
    root, seed = _root(run_id, records)
    return fold(root.id, root.action, seed, records, RunCodec())
