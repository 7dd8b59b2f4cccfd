"""Supervision: services are started in order, restarted when they fail, given up visibly, and stopped in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

import structlog

from branches.place import told
from branches.service import Finished, Service, first_error
from coven.backoff import Backoff
from coven.clock import Clock, SystemClock
from coven.lifecycle import ServiceChanged, State
from journals import ClaimLost, JournalError

STOP_TIMEOUT_S = 3.0
NOTE_TIMEOUT_S = 1.0
SLOW_START_S = 10.0
_GRACE_S = 0.2
_log: Any = structlog.get_logger("coven.host")

Note = Callable[[ServiceChanged], Awaitable[None]]


class ServiceFailed(Exception):
    """A service could not start, or failed too often. The others were stopped, and nothing recorded is lost."""

    def __init__(self, service: str, error: BaseException, failures: int = 0, window: float = 0.0) -> None:
        how = f"failed {failures} times within {window:g} s and was given up" if failures else "could not start"
        super().__init__(f"service {service!r} {how}: {describe(error)}")
        self.service, self.error, self.failures = service, error, failures


class TakenOver(Exception):
    """Another coven has taken a service's work over, so this one stopped: two of them would fight for ever."""

    def __init__(self, service: str, lost: ClaimLost) -> None:
        super().__init__(
            f"service {service!r} was taken over by another coven that runs on the same journals, so this one has "
            f"stopped ({lost}); run each service once, or start this one again to take the work back"
        )
        self.service, self.lost = service, lost


class Supervisor:
    """Runs services as long as they should run.

    They are started in the order given, each when the one before it is ready, and stopped in reverse order. One that
    fails is started again after a growing delay while the others go on; when it fails too often, all are stopped:
    half a coven would take prompts that nobody answers. `note` records every change of state.
    """

    def __init__(
        self,
        services: Sequence[Service],
        *,
        host: str,
        note: Note,
        backoff: Backoff | None = None,
        clock: Clock | None = None,
        stop_timeout: float = STOP_TIMEOUT_S,
        note_timeout: float = NOTE_TIMEOUT_S,
        slow_start: float = SLOW_START_S,
    ) -> None:
        self._host, self._note_entry = host, note
        self.backoff, self.clock = backoff or Backoff(), clock or SystemClock()
        self._stop_timeout, self._note_timeout, self._slow_start = stop_timeout, note_timeout, slow_start
        self._noting, self._not_noted = True, ""
        self._keepers = [_Keeper(self, service) for service in services]

    def __repr__(self) -> str:
        return f"<Supervisor {', '.join(f'{keeper.name} {keeper.state}' for keeper in self._keepers)}>"

    @property
    def states(self) -> dict[str, State]:
        """Where each service stands."""
        return {keeper.name: keeper.state for keeper in self._keepers}

    async def run(self, ready: Callable[[], None], stopping: Callable[[], None] = lambda: None) -> None:
        """Run all until one is `Finished`, or this is cancelled; everything is stopped when it returns or raises.

        `stopping` is called when stopping begins without anybody having cancelled this; being cancelled then does not
        cut it short. Raises `ServiceFailed` and `TakenOver`.
        """
        running: dict[asyncio.Task[None], _Keeper] = {}
        try:
            for keeper in self._keepers:
                started = asyncio.Event()
                task = asyncio.create_task(keeper.keep(started), name=keeper.name)
                running[task] = keeper
                waiting = asyncio.create_task(started.wait())
                await self._start(keeper, [waiting, *running])
                waiting.cancel()
                if any(task.done() for task in running):
                    break
            else:
                ready()
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            stopping()
        finally:
            await _to_the_end(self._stop(running))
        for task in running:
            if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, Finished):
                raise error

    async def _start(self, keeper: _Keeper, either: Sequence[asyncio.Task[Any]]) -> None:
        """Until it is ready, or a service has ended. When that takes long it is said: nobody would see what waits."""
        done, _ = await asyncio.wait(either, timeout=self._slow_start, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            hint = "a leaf calls `ready()` when it can deliver"
            _log.warning("service is not ready yet, and those after it wait", service=keeper.name, hint=hint)
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)

    async def _stop(self, running: dict[asyncio.Task[None], _Keeper]) -> None:
        """Stop in reverse order, within the stop timeout altogether; each has at least a short grace."""
        deadline = asyncio.get_running_loop().time() + self._stop_timeout
        for task, keeper in reversed(running.items()):
            if task.done():
                continue
            await self.note(keeper, State.STOPPING)
            task.cancel()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(max(deadline, asyncio.get_running_loop().time() + _GRACE_S)):
                    await asyncio.wait([task])
            if task.done():
                await self.note(keeper, State.STOPPED)
            else:
                _log.error("service does not stop; it is left behind", service=keeper.name)
        for task in running:
            if task.done() and not task.cancelled():
                task.exception()  # looked at, also where nobody raises it because of a cancellation

    async def note(self, keeper: _Keeper, state: State, reason: str | None = None, failures: int = 0) -> None:
        """Record a change; a store that is away keeps nobody from starting, and stopping waits for it once."""
        keeper.state = state
        if not self._noting:
            return
        entry = ServiceChanged(service=keeper.name, state=state, host=self._host, reason=reason, failures=failures)
        _log.debug("service", name=keeper.name, state=state.value, reason=reason)
        try:
            async with asyncio.timeout(self._note_timeout):
                await self._note_entry(entry)
        except (JournalError, TimeoutError) as error:
            self._noting = state is not State.STOPPING
            why = str(error) if isinstance(error, JournalError) else f"no answer within {self._note_timeout:g} s"
            say = _log.debug if why == self._not_noted else _log.warning  # one reason is said once, not for each change
            say("a lifecycle entry was not recorded", service=keeper.name, state=state.value, error=why)
            self._not_noted = why
        else:
            self._not_noted = ""


class _Keeper:
    """Keeps one service running, in a task of its own."""

    def __init__(self, supervisor: Supervisor, service: Service) -> None:
        self._supervisor, self._service = supervisor, service
        self.name = service.name
        self.state = State.STOPPED

    async def keep(self, started: asyncio.Event) -> None:
        """Run the service again and again. Raises `Finished`, `ServiceFailed`, `TakenOver`."""
        note, backoff, clock = self._supervisor.note, self._supervisor.backoff, self._supervisor.clock
        failures: tuple[float, ...] = ()
        while True:
            await note(self, State.STARTING)
            error = await self._run(started)
            if isinstance(error, Finished):
                raise error
            failures = backoff.recent((*failures, clock.now()), clock.now())
            await note(self, State.FAILED, describe(error), len(failures))
            if isinstance(error, ClaimLost):
                raise TakenOver(self.name, error) from error
            if not started.is_set():
                raise ServiceFailed(self.name, error) from error
            delay = backoff.delay(failures, clock.now())
            if delay is None:
                raise ServiceFailed(self.name, error, len(failures), backoff.window) from error
            _log.warning("service failed; it is started again", service=self.name, delay=delay, error=describe(error))
            _log.debug("the failure in full", service=self.name, exc_info=error)
            await clock.sleep(delay)

    async def _run(self, started: asyncio.Event) -> BaseException:
        """One life of the service: gives what ended it."""
        noting: list[asyncio.Task[None]] = []

        def ready() -> None:
            if not noting:
                noting.append(asyncio.create_task(running()))

        async def running() -> None:
            await self._supervisor.note(self, State.RUNNING)
            started.set()

        try:
            await self._service.run(ready)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return error  # nobody cancelled us: the service did so itself
        except Exception as error:  # noqa: BLE001 - the boundary: whatever ends a service is its failure
            return first_error(error)
        finally:
            for task in noting:
                await task
        return RuntimeError("it ended by itself")


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Do the work whole; a cancellation that comes meanwhile is raised behind it."""
    working = asyncio.ensure_future(work)
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise


def describe(error: BaseException) -> str:
    """An error on one line: ours by their message alone, since it says what to do; others with type and place."""
    text = " ".join(str(error).split()) if isinstance(error, JournalError) else ""
    return text or told(error)
