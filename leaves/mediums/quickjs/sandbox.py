"""One entity's JavaScript: its variables, and turn after turn of code."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from branches.agents.medium import CodeEnding, CodeError, CodeOutcome, Host, Limits, Seed
from leaves.mediums.asking import ask
from leaves.mediums.names import CodeGate
from leaves.mediums.outcomes import Outcomes
from leaves.mediums.quickjs.crossing import Crossing, Ended
from leaves.mediums.quickjs.declarations import redeclarable
from leaves.mediums.quickjs.guest import FULFILLED, OK, PENDING, Guest, Trapped
from leaves.mediums.quickjs.images import Base, Image, Mirrored
from leaves.mediums.quickjs.turn import Turn, from_json
from leaves.mediums.sealed import seal

_AWAITS = re.compile(r"\bawait\b")
_FRAME = re.compile(r"at (.*?)\(?eval_script:(\d+):(\d+)\)?")
_FULL = 0.9
_RESERVE = 16
_AS_TEXT = 2


class Shelf(Protocol):
    """What the sandboxes of a medium share."""

    def start(self, work: Callable[[], None]) -> None:
        """Run a turn on a thread of its own, once it is admitted."""
        ...

    def used(self, sandbox: JavaScriptSandbox) -> None:
        """This sandbox keeps a guest; whoever used one longest ago lets go of it."""
        ...

    def gone(self, sandbox: JavaScriptSandbox) -> None:
        """This sandbox is closed."""
        ...


class JavaScriptSandbox:
    """Between turns it is an image; the guest that it came from is kept as long as it is among the last used."""

    def __init__(self, shelf: Shelf, base: Base, gates: Sequence[CodeGate], limits: Limits, image: Image) -> None:
        self._shelf, self._base, self._limits, self._image = shelf, base, limits, image
        self._gates: Mapping[str, CodeGate] = {gate.name: gate for gate in gates}
        self._surface = json.dumps([[gate.path, gate.name] for gate in gates])
        self._warm: Mirrored | None = None
        self._turn: Turn | None = None
        self._closed = False
        self._reserve = limits.memory_bytes // _RESERVE

    def __repr__(self) -> str:
        state = "closed" if self._closed else "running" if self._turn else "warm" if self._warm else "cold"
        return f"<JavaScriptSandbox {state} pages={len(self._image.pages)}>"

    @property
    def memory_bytes(self) -> int:
        """What it holds in memory now: its image, and the guest if it keeps one."""
        return sum(map(len, self._image.pages.values())) + (0 if self._warm is None else self._warm.memory_bytes)

    async def run(self, code: str, host: Host, seed: Seed) -> CodeOutcome:
        """See `Sandbox.run`."""
        if self._turn is not None or self._closed:
            raise RuntimeError("a sandbox that is closed or at work runs no second turn")
        if len(code) > self._limits.code_chars:
            return Outcomes(self._limits).too_much_code(len(code))
        crossing = Crossing()
        turn = self._turn = Turn(self._gates, crossing, self._limits, seed)
        warm, self._warm = self._warm, None
        try:
            self._shelf.start(lambda: self._work(warm, turn, crossing, code, seed))
            while not isinstance(event := await crossing.next(), Ended):
                crossing.answer(await ask(host, event.gate, event.arguments, turn.wall_left))
            return self._end(event)
        except BaseException:
            turn.abandon()
            raise
        finally:
            self._turn = None

    async def snapshot(self) -> bytes | None:
        """See `Sandbox.snapshot`."""
        image, identity = self._image, self._base.identity
        return await asyncio.to_thread(lambda: seal(identity, image.to_bytes()))

    async def close(self) -> None:
        """See `Sandbox.close`."""
        self._closed = True
        if self._turn is not None:
            self._turn.abandon()
        self.cool()
        self._shelf.gone(self)

    def cool(self) -> None:
        """Let go of the guest; the image says all."""
        warm, self._warm = self._warm, None
        if warm is not None:
            warm.guest.close()

    def _end(self, ended: Ended) -> CodeOutcome:
        """Keep what a turn did: here and not on its thread, so that a turn that was cancelled did nothing."""
        if isinstance(ended.outcome, BaseException):
            raise ended.outcome
        if ended.image is not None:
            self._image, self._warm = ended.image, ended.warm
            if self._closed:
                self.cool()
            else:
                self._shelf.used(self)
        return ended.outcome

    # ---- on a thread

    def _work(self, warm: Mirrored | None, turn: Turn, crossing: Crossing, code: str, seed: Seed) -> None:
        self._base.machine.enter()
        fresh, image = warm is None, None
        turn.pace.begin()
        try:
            if warm is None:
                warm = self._base.revive(self._image, self._limits.memory_bytes)
            outcome = self._evaluate(warm.guest, turn, code, seed, fresh)
            warm.guest.occupant = None
            if not outcome.restored and turn.stop != "abandoned":
                image = warm.capture()
        except Trapped as trap:
            outcome = turn.trapped(str(trap), full=warm is not None and self._is_full(warm.guest))
        except BaseException as error:  # noqa: BLE001  it goes on where the turn is awaited
            outcome = error
        finally:
            turn.pace.give()
            self._base.machine.leave()
        if image is None and warm is not None:
            warm.guest.close()
        crossing.end(Ended(outcome, None if image is None else warm, image))

    def _evaluate(self, guest: Guest, turn: Turn, code: str, seed: Seed, fresh: bool) -> CodeOutcome:
        guest.occupant, size = turn, guest.size
        turn.start()
        order = guest.string(
            f"[{list(_numbers(seed))},{self._limits.output_chars},{self._surface if fresh else 'null'}]"
        )
        status, given = guest.invoke(self._base.begin, order)
        guest.free(order)
        if status != OK:
            raise Trapped("the gates could not be put in place")
        guest.free(given)
        awaits = _AWAITS.search(code) is not None
        plain, followed = redeclarable(code)
        status, value = guest.evaluate(plain.encode("utf-8", "replace"), awaits=awaits)
        self._drain(guest, turn)
        turn.close()
        if status == OK:
            outcome = self._completed(guest, turn, value, awaits)
        else:
            outcome = self._raised(guest, turn, guest.thrown())
        self._drain(guest, turn)  # what is left of the turn ends here and not in the next one
        if outcome.ending is CodeEnding.RAISED and not followed:  # a declaration that failed would stay dead for ever
            return msgspec.structs.replace(outcome, restored=True)
        if turn.stop == "cpu" and guest.size - size > self._reserve:
            return turn.stopped(restored=True)  # a built-in that was interrupted keeps what it had
        if not outcome.restored and not self._leaves_room(guest):
            return turn.outcomes.finished(restored=True) if turn.stop == "done" else turn.outcomes.out_of_memory()
        return outcome

    def _completed(self, guest: Guest, turn: Turn, value: int, awaits: bool) -> CodeOutcome:
        envelope = awaits  # code that awaits at its top level gives a promise of an object with its value
        while (promise := guest.promise(value)) is not None and promise[0] != PENDING:
            state, settled = promise
            if state != FULFILLED:
                return self._raised(guest, turn, settled)
            guest.free(value)
            value, envelope = (guest.member(settled, "value") if envelope else settled), False
        status, text = guest.invoke(self._base.finish, value)
        guest.free(value)
        if turn.stop is not None or status != OK:
            return self._raised(guest, turn, guest.thrown())
        answer = from_json(guest.text(text))
        guest.free(text)
        return turn.outcomes.completed(*answer[1:], as_text=answer[0] == _AS_TEXT)

    def _raised(self, guest: Guest, turn: Turn, thrown: int | None) -> CodeOutcome:
        error = CodeError("Error", "an error that cannot be shown")
        if thrown is not None and turn.stop is None:
            status, text = guest.invoke(self._base.explain, thrown)
            guest.free(thrown)
            if status == OK:
                name, message, stack = from_json(guest.text(text))
                guest.free(text)
                error = CodeError(name, message, _where(stack))
        if turn.stop is not None:
            return turn.stopped(restored=False)
        exhausted = (error.name == "InternalError" and error.message == "out of memory") or (
            error.message == "null" and self._is_full(guest)  # there was not even memory for an error
        )
        if exhausted:
            return turn.outcomes.out_of_memory()
        return turn.outcomes.raised(error)

    def _drain(self, guest: Guest, turn: Turn) -> None:
        """Run what the code left for later; jobs of a turn that must stop are interrupted each."""
        while guest.call("execute_pending_jobs") > 0:
            if turn.overdue():
                raise Trapped("overdue")

    def _is_full(self, guest: Guest) -> bool:
        return guest.size > self._base.room(self._limits.memory_bytes) * _FULL

    def _leaves_room(self, guest: Guest) -> bool:
        """Whether a next turn can still do something, if only to throw things away."""
        if guest.size + self._reserve <= self._base.room(self._limits.memory_bytes) or self._spare(guest):
            return True
        before = self._base.revive(self._image, self._limits.memory_bytes).guest
        try:
            return not self._spare(before)  # it was no better before this turn, which may have helped
        finally:
            before.close()

    def _spare(self, guest: Guest) -> bool:
        """Whether a full guest has some memory in one piece."""
        try:
            guest.call("run_gc")
            block = guest.call("qjs_alloc", self._reserve)
            guest.call("qjs_free", block, self._reserve)
        except Trapped:
            return False
        return block != 0


def _numbers(seed: Seed) -> tuple[int, int, int]:
    chance = random.Random(seed.random)
    return chance.getrandbits(31), chance.getrandbits(31), chance.getrandbits(31)


def _where(stack: str) -> str | None:
    """Where in the entity's own code: the frames of a gate stand before it."""
    frames = _FRAME.findall(stack)
    if frames and frames[0][0].strip(" (") == "enter":
        frames = frames[2:]
    return f"line {frames[0][1]}, column {frames[0][2]}" if frames else None
