"""Supervision: start in order, restart what fails, give up visibly, stop in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from branches.service import Finished
from coven.backoff import Backoff
from coven.lifecycle import ServiceChanged
from coven.supervisor import ServiceFailed, Supervisor, TakenOver
from journals import ClaimLost, StoreUnavailable


class FakeClock:
    """Sleeping takes no time, and is remembered."""

    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


class Scripted:
    """A service whose lives are scripted: `fail` raises before it is ready, `break` after, `run` runs until told."""

    def __init__(self, name: str, *lives: str | BaseException) -> None:
        self.name = name
        self._lives = list(lives)
        self.end: asyncio.Future[None] = asyncio.get_event_loop().create_future()
        self.running = asyncio.Event()

    async def run(self, ready: Callable[[], None]) -> None:
        life = self._lives.pop(0) if self._lives else "run"
        if life == "fail":
            raise ValueError("no way")
        ready()
        if life == "break":
            raise ValueError("broken")
        if isinstance(life, BaseException):
            raise life
        if life == "return":
            return
        self.running.set()
        if life == "stubborn":
            while not self.end.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.shield(self.end)
        await self.end


class Book:
    """What was recorded, as `service state`."""

    def __init__(self) -> None:
        self.entries: list[ServiceChanged] = []

    async def note(self, entry: ServiceChanged) -> None:
        await asyncio.sleep(0)
        self.entries.append(entry)

    @property
    def lines(self) -> list[str]:
        return [f"{entry.service} {entry.state}" for entry in self.entries]


@pytest.fixture
def book() -> Book:
    return Book()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def supervise(book: Book, clock: FakeClock, *services: Scripted, **options) -> Supervisor:
    options = {"backoff": Backoff(first=1, limit=2, window=60), **options}
    return Supervisor(services, host="test", note=book.note, clock=clock, **options)


async def test_services_start_in_order_and_stop_in_reverse(book, clock):
    services = [Scripted("a"), Scripted("b"), Scripted("c")]
    supervisor, ready = supervise(book, clock, *services), asyncio.Event()
    task = asyncio.create_task(supervisor.run(ready.set))
    await ready.wait()
    assert repr(supervisor) == "<Supervisor a running, b running, c running>"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    starts = [line for line in book.lines if line.endswith(("starting", "running"))]
    assert starts == ["a starting", "a running", "b starting", "b running", "c starting", "c running"]
    assert book.lines[6:] == ["c stopping", "c stopped", "b stopping", "b stopped", "a stopping", "a stopped"]


async def test_a_service_that_cannot_start_rolls_the_others_back(book, clock):
    with pytest.raises(ServiceFailed, match="'b' could not start: ValueError: no way"):
        await supervise(book, clock, Scripted("a"), Scripted("b", "fail"), Scripted("c")).run(lambda: None)
    assert book.lines == ["a starting", "a running", "b starting", "b failed", "a stopping", "a stopped"]


async def test_a_service_that_takes_long_to_be_ready_is_named_while_the_others_wait_for_it(book, clock, monkeypatch):
    said: asyncio.Future[str] = asyncio.get_event_loop().create_future()

    class Log:
        def warning(self, event: str, *, service: str, hint: str) -> None:
            if not said.done():
                said.set_result(f"{service}: {event}; {hint}")

        def debug(self, *_: object, **__: object) -> None:
            pass

    class Slow(Scripted):
        async def run(self, ready: Callable[[], None]) -> None:
            await said
            await super().run(ready)

    monkeypatch.setattr("coven.supervisor._log", Log())
    ready = asyncio.Event()
    supervisor = supervise(book, clock, Slow("pager"), Scripted("b"), slow_start=0.0)
    task = asyncio.create_task(supervisor.run(ready.set))
    assert (await said).startswith("pager: service is not ready yet, and those after it wait; a leaf calls `ready()`")
    await ready.wait()
    task.cancel()
    await asyncio.wait([task])


async def test_a_failed_service_is_started_again_while_the_others_go_on(book, clock):
    steady, shaky = Scripted("steady"), Scripted("shaky", "break", "return")
    task = asyncio.create_task(supervise(book, clock, steady, shaky).run(lambda: None))
    await shaky.running.wait()
    assert clock.slept == [1, 2]
    failed = [entry for entry in book.entries if entry.state == "failed"]
    assert [(entry.reason, entry.failures) for entry in failed] == [
        ("ValueError: broken (test_supervisor.py, line 50)", 1),
        ("RuntimeError: it ended by itself", 2),
    ]
    assert "steady stopping" not in book.lines
    task.cancel()
    await asyncio.wait([task])


async def test_a_service_that_fails_too_often_is_given_up_and_all_stop(book, clock):
    with pytest.raises(ServiceFailed, match="'b' failed 3 times within 60 s and was given up: ValueError: broken"):
        await supervise(book, clock, Scripted("a"), Scripted("b", *["break"] * 9)).run(lambda: None)
    assert clock.slept == [1, 2]
    assert book.lines[-3:] == ["b failed", "a stopping", "a stopped"]


async def test_failures_that_lie_apart_are_forgiven(book, clock):
    class Apart(FakeClock):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds)
            self.time += 60

    apart, service = Apart(), Scripted("a", *["break"] * 20)
    task = asyncio.create_task(supervise(book, apart, service).run(lambda: None))
    await service.running.wait()
    assert apart.slept == [1] * 20
    task.cancel()
    await asyncio.wait([task])


async def test_when_one_is_finished_all_stop_and_nothing_is_raised(book, clock):
    await supervise(book, clock, Scripted("a"), Scripted("chat", Finished())).run(lambda: None)
    assert book.lines[-2:] == ["a stopping", "a stopped"]
    assert "chat failed" not in book.lines


async def test_being_cancelled_while_it_stops_by_itself_leaves_nobody_running(book, clock):
    services = [Scripted("a"), Scripted("b"), Scripted("chat", Finished())]
    told: list[asyncio.Task[None]] = []
    supervisor = supervise(book, clock, *services)
    task = asyncio.create_task(supervisor.run(lambda: None, lambda: told.append(asyncio.create_task(cancel()))))

    async def cancel() -> None:
        task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(told) == 1
    assert book.lines[-4:] == ["b stopping", "b stopped", "a stopping", "a stopped"]


async def test_the_first_error_of_a_group_counts(book, clock):
    group = ExceptionGroup("", [Finished(), ExceptionGroup("", [StoreUnavailable("the server is away")])])
    service = Scripted("a", group)
    task = asyncio.create_task(supervise(book, clock, service).run(lambda: None))
    await service.running.wait()
    assert [entry.reason for entry in book.entries if entry.reason] == ["the server is away"]
    task.cancel()
    await asyncio.wait([task])


async def test_a_service_that_was_taken_over_is_not_started_again(book, clock):
    lost = ClaimLost("chat", "session 'console'", "old", 7)
    with pytest.raises(TakenOver, match="'router' was taken over by another coven"):
        await supervise(book, clock, Scripted("a"), Scripted("router", lost)).run(lambda: None)
    assert clock.slept == []
    assert book.lines[-3:] == ["router failed", "a stopping", "a stopped"]


async def test_a_service_that_cancels_itself_has_failed(book, clock):
    service = Scripted("a", asyncio.CancelledError())
    task = asyncio.create_task(supervise(book, clock, service).run(lambda: None))
    await service.running.wait()
    assert [entry.reason for entry in book.entries if entry.reason] == ["CancelledError (test_supervisor.py, line 52)"]
    task.cancel()
    await asyncio.wait([task])


async def test_a_service_that_does_not_stop_is_left_behind_and_the_others_stop(book, clock):
    services = [Scripted("a"), Scripted("stubborn", "stubborn")]
    task = asyncio.create_task(supervise(book, clock, *services, stop_timeout=0.05).run(lambda: None))
    await services[1].running.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert book.lines[-3:] == ["stubborn stopping", "a stopping", "a stopped"]
    services[1].end.set_result(None)


async def test_stopping_waits_only_once_for_a_store_that_does_not_answer(clock):
    asked: list[str] = []
    away = asyncio.Event()

    async def hang(entry: ServiceChanged) -> None:
        asked.append(f"{entry.service} {entry.state}")
        if away.is_set():
            await asyncio.get_running_loop().create_future()

    services = [Scripted("a"), Scripted("b")]
    supervisor = Supervisor(services, host="test", note=hang, clock=clock, note_timeout=0.01)
    task = asyncio.create_task(supervisor.run(lambda: None))
    await services[1].running.wait()
    away.set()
    task.cancel()
    await asyncio.wait([task])
    assert asked[-1] == "b stopping"
    assert supervisor.states == {"a": "stopped", "b": "stopped"}


async def test_a_store_that_is_away_keeps_nobody_from_running(clock):
    async def refuse(entry: ServiceChanged) -> None:
        raise StoreUnavailable("away")

    service = Scripted("a")
    task = asyncio.create_task(Supervisor([service], host="test", note=refuse, clock=clock).run(lambda: None))
    await service.running.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_why_nothing_is_recorded_is_said_once_for_each_reason(clock):
    answers: list[BaseException | None] = [StoreUnavailable("full"), StoreUnavailable("full"), None, TimeoutError()]

    async def refuse(entry: ServiceChanged) -> None:
        if answers and (answer := answers.pop(0)) is not None:
            raise answer

    with capture_logs() as said:
        services = [Scripted("a"), Scripted("b")]
        task = asyncio.create_task(Supervisor(services, host="test", note=refuse, clock=clock).run(lambda: None))
        await services[1].running.wait()
        task.cancel()
        await asyncio.wait([task])
    lost = [line for line in said if line["event"] == "a lifecycle entry was not recorded"]
    assert [(line["error"], line["log_level"]) for line in lost] == [
        ("full", "warning"),
        ("full", "debug"),
        ("no answer within 1 s", "warning"),
    ]
