"""Carries a storm out upon a coven, and then waits until everything that was asked has come to its end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

from branches.agents import AGENTS
from branches.agents.entries import AgentCancel
from journals import JournalError
from tests.chaos.soak.deployment import DOOR, SERVICES, Deployment, Running
from tests.chaos.soak.records import Journals
from tests.chaos.soak.setting import setting
from tests.chaos.soak.storm import Blow
from tests.chaos.soak.visitors import Visitors
from tests.chaos.soak.world import World

_AT_MOST_S = 1.5
_VISIT = 0.4
_OF_TWO = ("rival", "zombie", "overtake")
_COMES_TO_ITS_END_WITHIN_S = 120.0


class Driver:
    """One coven through one storm."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._seed = seed
        self._folder, self.setting = folder, setting(seed)
        self.world = World(Random(f"world {seed}"), holds=self.setting.holds, fails=self.setting.fails)
        self._random = Random(f"driver {seed}")
        self._prompts = 0
        self._rivals: set[str] = set()
        self._pausing: set[asyncio.Task[None]] = set()
        self.history: list[str] = []
        self.server_was_away = self.setting.shared  # it is, in every takeover
        self.deployment: Deployment

    def __repr__(self) -> str:
        return f"<Driver {self.world}, {self._prompts} prompts>"

    @property
    def rivals(self) -> set[str]:
        """The services of which two may have run at once. A door runs what nobody runs, and gives way to who does."""
        return self._rivals | {*SERVICES} if self.setting.door else self._rivals

    async def open(self) -> None:
        """Start everything."""
        await self.world.open()
        self.deployment = Deployment(self._folder, self.setting, self.world.port)
        await self.deployment.open()
        self.visitors = Visitors(Random(f"visitors {self._seed}"), self.deployment.door)
        for service in self.deployment.services:
            await self.deployment.start(service)

    async def close(self) -> None:
        """End everything, whatever state it is in."""
        async with AsyncExitStack() as closing:
            closing.push_async_callback(self.deployment.close)
            closing.push_async_callback(self.world.close)
            self.visitors.close()
            for pausing in self._pausing:
                pausing.cancel()

    async def carry_out(self, blows: list[Blow]) -> None:
        """One blow after the other, among things that happen."""
        for blow in blows:
            for conversation, plan in blow.plans:
                self.ask(conversation, plan)
            await self.world.happens(blow.after, _AT_MOST_S)
            self.history.append(str(blow))
            await self._strike(blow)
            self.world.release(self._random.randint(0, 2))
            await self._bring_back()

    def ask(self, conversation: str, plan: str) -> None:
        """A person asks for something."""
        self._prompts += 1
        text = f"p{self._prompts}: {plan}"
        if self.setting.door and self._random.random() < _VISIT:
            self.visitors.ask(f"visit-{conversation}", text)
        else:
            self.world.say(conversation, text)

    async def settle(self) -> Journals:
        """Bring everything back, and wait until all is quiet; gives the journals then.

        Of two that ran at once the older one leaves alone what the newer one has taken: so of those one is started
        anew, as the documentation says. All others live on as they are.
        """
        for pausing in list(self._pausing):
            await pausing
        self.world.release()
        for running in list(self.deployment.running):
            running.go_on()
            if running.service in self._rivals:
                await self.deployment.kill(running)
        await self._bring_back()
        return await self._quiet()

    async def start_anew(self) -> Journals:
        """Stop everything in order, start it again, and ask one more thing in every conversation.

        Gives the journals when that is answered. Raises `AssertionError` for a service that does not stop.
        """
        bad = await self.deployment.stop()
        assert not bad, [f"{running} {last_words(running)}" for running in bad]
        for conversation in dict.fromkeys(said.conversation for said in self.world.said):
            self.ask(conversation, "again")
        await self._bring_back()
        return await self._quiet()

    async def _quiet(self) -> Journals:
        journals = Journals(self.deployment, self.world)
        patience = asyncio.timeout(_COMES_TO_ITS_END_WITHIN_S)
        try:
            async with patience:
                await self._visited()
                await journals.read_until_quiet(self._bring_back)
        except TimeoutError:
            if not patience.expired():  # what waits still is told then
                raise
        return journals

    async def _visited(self) -> None:
        """Wait until all who came to the door have their answers."""
        answered = asyncio.create_task(self.visitors.answered())
        try:
            while not answered.done():
                await asyncio.wait([answered], timeout=1.0)
                await self._bring_back()
        finally:
            answered.cancel()

    async def _strike(self, blow: Blow) -> None:
        deployment = self.deployment
        alone = blow.upon == DOOR or not self.setting.rivals
        match "kill" if alone and blow.kind in _OF_TWO else blow.kind:
            case "kill":
                for running in deployment.of(blow.upon)[-1:]:
                    await deployment.kill(running)
            case "end":
                for running in deployment.of(blow.upon)[-1:]:
                    await self._end(running)
            case "pause":
                for running in deployment.of(blow.upon)[-1:]:
                    self._pause(running, blow.seconds)
            case "rival":
                self._rivals.add(blow.upon)
                await deployment.start(blow.upon)
            case "zombie":
                self._rivals.add(blow.upon)
                for running in deployment.of(blow.upon)[-1:]:
                    self._pause(running, blow.seconds)
                await deployment.start(blow.upon)
            case "overtake":
                await self._overtake(blow)
            case "kill all":
                for running in list(deployment.running):
                    await deployment.kill(running)
            case "kill server":
                self.server_was_away = True
                await deployment.server.kill()
            case "pause server":
                self.server_was_away = True
                deployment.server.pause()
                await asyncio.sleep(blow.seconds)
                deployment.server.go_on()
            case "cut":
                if blow.upon in deployment.wires:
                    deployment.wires[blow.upon].cut()
            case "swallow":
                if blow.upon in deployment.wires:
                    self._swallow(blow.upon, blow.seconds)
            case "cancel":
                await self._cancel(blow.upon)
            case "reset" | "fork":
                self.world.say(blow.upon, f"/{blow.kind}")
            case "say" | "flood":
                pass

    async def _overtake(self, blow: Blow) -> None:
        """Somebody stands still until a younger one is in the middle of their work, and goes on then."""
        self._rivals.add(blow.upon)
        older = self.deployment.of(blow.upon)[-1:]
        for running in older:
            running.pause()
        await self.deployment.start(blow.upon)
        await self.world.happens(self._random.randint(1, 4), _AT_MOST_S + blow.seconds)
        for running in older:
            running.go_on()

    async def _end(self, running: Running) -> None:
        """End it in order, as an operator does."""
        if running.paused:
            return
        running.signal(signal.SIGTERM)
        await asyncio.wait_for(running.process.wait(), 30)
        self.deployment.running.remove(running)
        if not running.ended_well:
            self.deployment.ended.append(running)

    def _pause(self, running: Running, seconds: float) -> None:
        running.pause()
        self._later(seconds, running.go_on)

    def _swallow(self, service: str, seconds: float) -> None:
        wire = self.deployment.wires[service]
        wire.swallow()
        self._later(seconds, wire.cut)

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        async def later() -> None:
            await asyncio.sleep(seconds)
            what()

        task = asyncio.create_task(later())
        self._pausing.add(task)
        task.add_done_callback(self._pausing.discard)

    async def _cancel(self, conversation: str) -> None:
        """Ask the entity of a conversation to stop, as the other front doors do."""
        try:
            async with await self.deployment.server.connect(self.deployment.name) as store:
                journal = await store.open("agents", AGENTS.registry())
                await journal.append(AgentCancel(), session=conversation)
        except JournalError as error:
            self.history.append(f"not cancelled: {error}")

    async def _bring_back(self) -> None:
        """Start again what has ended, as whoever runs a coven lets it be."""
        for running in self.deployment.look():
            self.history.append(f"{running} ended by itself: {last_words(running)}")
        for service in self.deployment.services:
            if not self.deployment.of(service):
                await self.deployment.start(service)


def last_words(running: Running) -> str:
    """The end of what a process has logged."""
    lines = running.log.read_text(errors="replace").splitlines()
    return lines[-1] if lines else ""
