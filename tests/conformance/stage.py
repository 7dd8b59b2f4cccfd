"""Runs a case through the public interface, and tells what happened."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from branches.agents import AGENTS, CrystalError, CrystalRequest, CrystalResponse, ToolCall, Usage
from branches.agents.call import Call
from branches.agents.cantrip import Cantrip
from branches.agents.circle import Circle
from branches.agents.crystal import Crystal, Sampling
from branches.agents.folding import Folding
from branches.agents.gate import thaw
from branches.agents.insist import Insisting
from branches.agents.internal import CrystalRetried
from branches.agents.loom import Loom, Turn, export_loom, import_loom, read_loom, reward
from branches.agents.retrying import Retrying
from coven.casting import Ended, Entity, cast, invoke
from coven.circles import circle
from coven.testing import ScriptedCrystal, answers_openai, at_once, drops, fails, runs
from coven.testing.scripted import Answer
from journals import Entry, Journal, MemoryStore, Record, Store
from tests.conformance import case as written
from tests.conformance.case import Case, Then
from tests.conformance.checks import USED_UP
from tests.conformance.gates import Gates, UnknownGate
from tests.conformance.loading import SuiteError
from tests.conformance.passing import PassingClock
from tests.conformance.saying import code_of
from tests.conformance.story import EpisodeSeen, GateSeen, Story, TurnSeen

_SECONDS = 60.0


async def play(case: Case, medium: str, folder: Path, store: Store | None = None) -> Story:
    """Run the case on one medium, with its files beneath the folder. Raises `SuiteError` for what cannot be set up."""
    clock = PassingClock()
    stage = _Stage(case, medium, folder, store or MemoryStore(clock=clock.now), clock)
    async with asyncio.timeout(_SECONDS):
        return await stage.play()


class _Stage:
    def __init__(self, case: Case, medium: str, folder: Path, store: Store, clock: PassingClock) -> None:
        assert case.setup is not None
        self._case, self._setup, self._medium, self._store, self._clock = case, case.setup, medium, store, clock
        self._gates = Gates(folder, clock)
        self._scripts: dict[str, ScriptedCrystal] = {}
        self._crystals: dict[str, Crystal | None] = {}
        self._ended: list[tuple[str, Ended]] = []
        self._asked = asyncio.Event()
        self._extracted: tuple[TurnSeen, ...] | None = None
        for path, text in case.setup.filesystem.items():
            file = folder / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        for name, crystal in case.setup.crystals.items():
            self._crystals[name] = None if crystal is None else self._crystal(name, crystal)

    async def play(self) -> Story:
        error: str | None = None
        journal = await self._store.open("agents", AGENTS.registry())
        async with _let_retries_pass(journal, self._clock):
            try:
                for step in self._case.action:
                    await self._step(step, journal)
            except SuiteError:
                raise
            except Exception as raised:  # noqa: BLE001 - whatever is raised is what happened, and is held against the case
                error = f"{type(raised).__name__}: {raised}"
        loom = await read_loom(journal)
        call = next(iter(loom.calls.values()), None)
        return Story(
            error=error,
            episodes=tuple(self._episode(intent, ended, loom) for intent, ended in self._ended),
            requests={name: tuple(script.requests) for name, script in self._scripts.items()},
            turns=tuple(map(_seen, loom.turns)),
            threads=len(loom.threads),
            call=None
            if call is None
            else {
                "system_prompt": call.system_prompt,
                "temperature": call.sampling.temperature,
                "require_done_tool": call.require_done_tool,
                "gates": [gate.name for gate in call.gates],
            },
            extracted=self._extracted,
            runs=tuple(self._gates.runs),
            retries=tuple([_delay(record) async for record in journal.read(kinds=[CrystalRetried.kind()])]),
        )

    # ---- what is done

    async def _step(self, step: written.Step, journal: Journal) -> None:
        if step.construct_cantrip:
            self._cantrip("crystal")
        elif step.cast is not None:
            intent: Any = written.whole(step.cast.intent)
            cantrip = self._cantrip(step.cast.crystal)
            if step.cast.cancel:
                ended = await self._cancelled(cantrip, intent)
            else:
                ended = await cast(cantrip, intent, store=self._store, clock=self._clock)
            self._ended.append((intent, ended))
        elif step.ask is not None:
            cantrip = self._cantrip(step.ask.crystal)
            async with invoke(cantrip, store=self._store, clock=self._clock) as entity:
                for asked in step.ask.intents:
                    self._ended.append((asked, await entity.ask(asked)))
        for then in step.then if isinstance(step.then, list) else filter(None, [step.then]):
            await self._then(then, journal, "crystal" if step.cast is None else step.cast.crystal)

    async def _cancelled(self, cantrip: Cantrip, intent: str) -> Ended:
        async with invoke(cantrip, store=self._store, clock=self._clock) as entity:
            prompt = await entity.send(intent)
            await self._asked.wait()
            await entity.cancel(prompt)
            return await entity.ended(prompt)

    async def _then(self, then: Then, journal: Journal, crystal: str) -> None:
        loom = await read_loom(journal)
        for key, value in (then.mutate_call or {}).items():
            setattr(self._cantrip(crystal).call, key, value)
        if then.mutate_turn is not None:
            loom.turns[then.mutate_turn].utterance = "something else"  # type: ignore[misc]
        if then.delete_turn is not None:
            loom.delete(loom.turns[then.delete_turn])
        if then.annotate_reward is not None:
            await reward(journal, loom.turns[then.annotate_reward.turn], then.annotate_reward.reward)
        if then.mutate_intent is not None:
            async with self._again(crystal) as entity:
                await entity.ask(then.mutate_intent, id=self._ended[-1][1].prompt)
        if then.fork is not None:
            await self._fork(then.fork, loom, crystal)
        if then.extract_thread is not None:
            self._extracted = tuple(map(_seen, loom.threads[then.extract_thread].turns))
        if then.export:
            again = import_loom(list(export_loom(loom)))
            if again != loom:
                raise AssertionError("the loom was not the same after it had been through lines of JSON")

    @asynccontextmanager
    async def _again(self, crystal: str) -> AsyncIterator[Entity]:
        """The entity of the last episode, alive once more."""
        session = self._ended[-1][1].session
        async with invoke(self._cantrip(crystal), store=self._store, clock=self._clock, session=session) as entity:
            yield entity

    async def _fork(self, fork: written.Fork, loom: Loom, crystal: str) -> None:
        own = [turn for turn in loom.turns if turn.session == self._ended[-1][1].session]
        cantrip = self._cantrip(fork.crystal)
        if fork.call is not None:
            cantrip = replace(cantrip, call=_call(fork.call))
        async with self._again(crystal) as entity:
            forked = await entity.fork(own[fork.from_turn - 1].id, cantrip=cantrip)
            self._ended.append((fork.intent, await forked.ask(fork.intent)))

    # ---- what is set up

    def _cantrip(self, crystal: str) -> Cantrip:
        setup = self._setup
        if crystal not in self._crystals and crystal != "crystal":
            raise SuiteError(self._case.where, f"there is no crystal {crystal!r}")
        children = [name for name in self._crystals if name.startswith("child_crystal")]
        unnamed = [name for name in sorted(children) if self._given(name).name is None]
        return Cantrip(
            crystal=self._crystals.get(crystal),  # type: ignore[arg-type]
            call=None if setup.call is None else _call(setup.call),  # type: ignore[arg-type]
            circle=self._circle(),  # type: ignore[arg-type]
            folding=None if setup.folding is None else _folding(setup.folding),
            crystals={self._given(name).name: self._made(name) for name in self._crystals if self._given(name).name},
            child_crystals=tuple(self._made(name) for name in unnamed),
            retry=Retrying() if setup.retry is None else Retrying(**msgspec.to_builtins(setup.retry)),
        )

    def _given(self, name: str) -> written.Crystal:
        return self._setup.crystals[name] or written.Crystal()

    def _made(self, name: str) -> Crystal:
        made = self._crystals[name]
        assert made is not None
        return made

    def _circle(self) -> Circle | None:
        given = self._setup.circle
        if given is None:
            return None
        try:
            gates = [self._gates.make(each) for each in given.gates]
        except UnknownGate as unknown:
            raise SuiteError(self._case.where, str(unknown)) from None
        return circle(gates=gates, wards=given.wards, medium=self._medium)

    def _crystal(self, name: str, given: written.Crystal) -> Crystal:
        script: list[Answer] = [self._answer(response) for response in given.responses]
        if given.raw_response is not None:
            script.append(answers_openai(given.raw_response))
        made = ScriptedCrystal(
            at_once(*script) if given.at_once else script,
            usage=None if given.usage is None else _usage(given.usage),
            otherwise=CrystalError("used_up", USED_UP),
        )
        self._scripts[name] = made
        return Insisting(made) if given.insist else made

    def _answer(self, response: written.Response) -> Answer:
        if response.hang:
            return self._hang
        if response.drops is not None:
            return drops(response.drops)
        if response.bug is not None:
            return _raise(RuntimeError(response.bug))
        if response.error is not None:
            error = response.error
            return fails(error.status, error.message, retry_after=error.retry_after)
        usage = None if response.usage is None else _usage(response.usage)
        content = written.whole(response.content)
        made = CrystalResponse(content=content, usage=usage or Usage(), thinking=response.thinking)
        code = response.code
        if isinstance(code, dict):
            code = code[self._medium]  # type: ignore[index]
        elif code is None and self._medium != "tools" and response.tool_calls and not response.native:
            assert self._setup.circle is not None
            code = code_of(response.tool_calls, self._setup.circle, self._medium)
        if code is not None:
            return replace(made, tool_calls=runs(code).tool_calls)
        return replace(made, tool_calls=tuple(_tool_calls(response.tool_calls or [])))

    async def _hang(self, request: CrystalRequest) -> CrystalResponse:
        self._asked.set()
        await self._clock.hang()
        raise AssertionError("nobody gave up")

    # ---- what is told

    def _episode(self, intent: str, ended: Ended, loom: Loom) -> EpisodeSeen:
        own = [turn for turn in loom.turns if turn.session == ended.session and turn.entity_id == ended.entity]
        before = sum(other.session == ended.session for _, other in self._ended[: self._index(ended)])
        last = [turn for turn in own if turn.ending is not None][before : before + 1]
        return EpisodeSeen(
            entity_id=ended.entity,
            intent=intent,
            ending=ended.ending,
            result=ended.answer,
            turns=ended.turns,
            ward=ended.ward,
            error=ended.error,
            usage=ended.usage,
            thread=tuple(turn.id for turn in loom.path(last[0].id).turns) if last else (),
        )

    def _index(self, ended: Ended) -> int:
        return next(n for n, (_, each) in enumerate(self._ended) if each is ended)


@asynccontextmanager
async def _let_retries_pass(journal: Journal, clock: PassingClock) -> AsyncIterator[None]:
    """Nobody waits for a provider's patience: its time passes as soon as it is recorded."""

    async def watch() -> None:
        async for record in journal.tail(kinds=[CrystalRetried.kind()]):
            assert isinstance(record.entry, CrystalRetried)
            await clock.skip_next(record.entry.retry_at - clock.now() + 1)

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


def _raise(error: Exception) -> Answer:
    def answer(request: CrystalRequest) -> CrystalResponse:
        raise error

    return answer


def _delay(record: Record[Entry]) -> float:
    """The seconds before a retry, in tenths."""
    assert isinstance(record.entry, CrystalRetried)
    return round(record.entry.retry_at - record.time, 1)


def _seen(turn: Turn) -> TurnSeen:
    return TurnSeen(
        id=turn.id,
        parent_id=turn.parent_id,
        cantrip_id=turn.cantrip_id,
        entity_id=turn.entity_id,
        sequence=turn.sequence,
        utterance=turn.utterance,
        observation=turn.observation,
        gate_calls=tuple(
            GateSeen(
                gate=call.gate,
                args=thaw(call.args),
                result=thaw(call.result),
                is_error=call.is_error,
                tool_call_id=call.tool_call_id,
            )
            for call in turn.gate_calls
        ),
        metadata=msgspec.structs.asdict(turn.metadata),
        reward=turn.reward,
        terminated=turn.terminated,
        truncated=turn.truncated,
    )


def _call(given: written.CallSetup) -> Call:
    return Call(
        system_prompt=given.system_prompt,
        require_done_tool=given.require_done_tool,
        tool_choice=given.tool_choice,
        sampling=Sampling(
            temperature=given.temperature, top_p=given.top_p, max_tokens=given.max_tokens, stop=given.stop
        ),
    )


def _folding(given: written.FoldingSetup) -> Folding:
    return Folding(**{key: value for key, value in msgspec.structs.asdict(given).items() if value is not None})


def _usage(given: written.Tokens) -> Usage:
    counts = [given.prompt_tokens, given.completion_tokens, given.cached_tokens]
    return Usage(*(0 if count is UNSET else count for count in counts))


def _tool_calls(given: Iterable[written.Call]) -> Iterable[ToolCall]:
    for number, call in enumerate(given, 1):
        arguments = call.arguments
        if arguments is None:
            arguments = msgspec.json.encode({} if call.args is UNSET else call.args).decode()
        yield ToolCall(f"call_{number}" if call.id is None else call.id, call.gate, arguments)
