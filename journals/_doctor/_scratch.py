"""A short-lived stream of the doctor's own, to try everything that Coven relies on, and to measure."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import msgspec

from journals._doctor._finding import Finding, ok, problem, warning
from journals._doctor._probe import NoAnswer, Probe
from journals._errors import StoreMismatch
from journals._ids import random_id
from journals._jetstream._settings import StreamSettings, check_settings, journal_settings

_FENCE = "Nats-Expected-Last-Subject-Sequence"
_FENCE_CODES = {10071, 10164}
_SKEW_S = 2.0
_INACTIVE_NS = 5_000_000_000
_PAIRS, _BUDGET_S = 30, 1.5
_BODY = b"x" * 256

SCRATCH = "_doctor"  # no journal can have this name

UPGRADE = "use a NATS server of version 2.14 or newer (2.15 recommended)"
ALLOW = "allow this user the subjects that docs/jetstream.md lists under “Permissions”"


class Latencies(msgspec.Struct, frozen=True):
    """The medians of one append, in seconds: to a stream on disk and to one in memory."""

    disk: float
    memory: float


class Scratch:
    """The stream and what was found with it. Call `create`, the others, and `remove` at last."""

    def __init__(self, probe: Probe, coven: str) -> None:
        self._probe = probe
        self.settings = journal_settings(coven, SCRATCH, replicas=1, short_lived=True)
        # One of an earlier doctor, who could not remove it, serves as well: its subjects are not these.
        self._subject = f"{coven}.{SCRATCH}.in.{random_id()[:8]}"
        self._position = 0

    def __repr__(self) -> str:
        return f"<Scratch {self.settings.name}>"

    async def create(self) -> list[Finding]:
        """Make the stream: may we, and does the server take every setting? Also compares the clocks.

        A `problem` among the findings means that there is no stream.
        """
        before = time.time()
        try:
            answer = await self._create(self.settings)
        except NoAnswer as error:
            return [problem("permissions", f"a stream cannot be created: {error}", ALLOW)]
        after = time.time()
        if failed := answer.get("error"):
            return [problem("jetstream", f"a stream cannot be created: {failed.get('description')}", UPGRADE_OR_LIMITS)]
        try:
            check_settings(self.settings, answer["config"])
        except StoreMismatch as error:
            await self.remove()
            return [problem("jetstream", f"the server changes what it is asked for: {error}", UPGRADE)]
        return [check_clock(_seconds(answer["ts"]), before, after)]

    async def try_everything(self) -> list[Finding]:
        """Append, refuse a stale fence, append a batch, read, refuse a deletion."""
        steps: list[tuple[str, Callable[[], Awaitable[Finding | None]]]] = [
            ("an append", self._append),
            ("a fenced append", self._fence),
            ("an atomic batch", self._batch),
            ("a direct read", self._direct_read),
            ("a consumer", self._consumer),
            ("a deletion that must be refused", self._deletion),
        ]
        findings: list[Finding] = []
        for what, step in steps:
            try:
                found = await step()
            except NoAnswer as error:
                found = problem("permissions", f"{what} is not possible: {error}", ALLOW)
            if found is not None:
                findings.append(found)
        return findings or [
            ok(
                "permissions",
                "streams, fenced appends, atomic batches, direct reads and consumers work; nothing deletes",
            )
        ]

    async def measure(self) -> Latencies | None:
        """How long appends take on disk and in memory, one after the other in turns; None if it cannot be tried."""
        name = f"{self.settings.name}-memory"
        subject = self._subject.replace(f".{SCRATCH}.", f".{SCRATCH}-memory.")
        twin = msgspec.structs.replace(self.settings, name=name, subjects=[subject], storage="memory")
        try:
            if "error" in await self._create(twin):
                return None
            try:
                return await self._measure(self._subject, subject)
            finally:
                await self._probe.api(f"STREAM.DELETE.{name}")
        except NoAnswer:
            return None

    async def remove(self) -> list[Finding]:
        """Delete the stream; if we may not, it forgets its few messages after ten minutes and stays, empty."""
        try:
            answer = await self._probe.api(f"STREAM.DELETE.{self.settings.name}")
        except NoAnswer as error:
            reason = str(error)
        else:
            if "error" not in answer:
                return []
            reason = answer["error"].get("description", "no reason given")
        name = self.settings.name
        return [
            warning(
                "permissions",
                f"the scratch stream {name} could not be removed ({reason})",
                f"allow `$JS.API.STREAM.DELETE.{name}`, or let it be: Coven itself removes no streams",
            )
        ]

    async def _create(self, settings: StreamSettings) -> dict[str, Any]:
        return await self._probe.api(f"STREAM.CREATE.{settings.name}", msgspec.to_builtins(settings))

    async def _append(self) -> Finding | None:
        answer = await self._probe.ask_json(self._subject, _BODY)
        self._position = answer.get("seq", 0)
        return _refusal("an append", answer)

    async def _fence(self) -> Finding | None:
        answer = await self._probe.ask_json(self._subject, _BODY, {_FENCE: "0"})
        error = answer.get("error", {})
        if error.get("err_code") in _FENCE_CODES:
            return None
        if error or not self._position:
            return _refusal("a fenced append", answer)  # full, for instance: that says nothing about fences
        return problem("jetstream", "the server lets an append pass that a fence must refuse", UPGRADE)

    async def _batch(self) -> Finding | None:
        batch = random_id()[:10]
        await self._probe.ask(self._subject, _BODY, {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": "1"})
        last = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": "2", "Nats-Batch-Commit": "1"}
        answer = await self._probe.ask_json(self._subject, _BODY, last)
        if "error" not in answer and answer.get("count") != 2:
            return problem("jetstream", "the server takes an atomic batch for single messages", UPGRADE)
        return _refusal("an atomic batch", answer)

    async def _direct_read(self) -> Finding | None:
        query = msgspec.json.encode({"seq": self._position})
        await self._probe.ask(f"$JS.API.DIRECT.GET.{self.settings.name}", query)
        return None

    async def _consumer(self) -> Finding | None:
        name = f"r{random_id()[:12]}"
        config = {
            "name": name,
            "filter_subject": self._subject,
            "ack_policy": "none",
            "mem_storage": True,
            "inactive_threshold": _INACTIVE_NS,
        }
        request = {"stream_name": self.settings.name, "config": config}
        answer = await self._probe.api(f"CONSUMER.CREATE.{self.settings.name}.{name}", request)
        if "error" in answer:
            return _refusal("a consumer", answer)
        pull = b'{"batch":1,"expires":1000000000}'
        await self._probe.ask(f"$JS.API.CONSUMER.MSG.NEXT.{self.settings.name}.{name}", pull, own_inbox=True)
        return None

    async def _deletion(self) -> Finding | None:
        try:
            answer = await self._probe.api(f"STREAM.MSG.DELETE.{self.settings.name}", {"seq": self._position})
        except NoAnswer:  # not even permitted to ask: so much the better
            return None
        if "error" in answer:
            return None
        return problem("jetstream", "the server deletes from a stream that is set to deny it", UPGRADE)

    async def _measure(self, disk: str, memory: str) -> Latencies:
        taken: dict[str, list[float]] = {disk: [], memory: []}
        end = time.perf_counter() + _BUDGET_S
        for _ in range(_PAIRS):
            for subject, times in taken.items():
                begin = time.perf_counter()
                await self._probe.ask(subject, _BODY)
                times.append(time.perf_counter() - begin)
            if time.perf_counter() > end:
                break
        return Latencies(statistics.median(taken[disk]), statistics.median(taken[memory]))


UPGRADE_OR_LIMITS = f"{UPGRADE}, with JetStream enabled and room for a stream in this account"


def check_clock(server: float, before: float, after: float) -> Finding:
    """Compare the server's clock, read at some moment between the two local times (all in seconds)."""
    off = before - server if server < before else max(server - after, 0.0)
    if off <= _SKEW_S:
        return ok("clock", f"the server's clock and this one agree within {_SKEW_S:g} s")
    way = "behind" if server < before else "ahead of"
    return warning(
        "clock",
        f"the server's clock is {off:.1f} s {way} this one: times in journals will not compare",
        "let both machines set their clocks by NTP",
    )


def _seconds(time_text: str) -> float:
    """RFC 3339 with nanoseconds, as the server writes it, in seconds since the epoch."""
    whole, _, rest = time_text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{rest or 0}")


def _refusal(what: str, answer: dict[str, Any]) -> Finding | None:
    error = answer.get("error")
    if error is None:
        return None
    description = str(error.get("description"))
    full = "insufficient" in description or "maximum" in description
    cure = "give the server more room: raise its `max_file_store`, the account's limits, or the disk"
    return problem("jetstream", f"{what} is refused: {description}", cure if full else UPGRADE_OR_LIMITS)
