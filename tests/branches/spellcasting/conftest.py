"""A journal, a substrate whose casts the test steers, and a service that runs while a test needs it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
from msgspec import Meta

from branches.spellcasting import SPELLCASTING, Casting, Spell, SpellInvocation, Substrate
from branches.spellcasting.service import SpellcastingService
from journals import Entry, Journal, Record, Store
from tests.living import living

OUTCOMES = ("SpellResult", "SpellFault")


class Ring(Spell, frozen=True, kw_only=True):
    """Ring the bell: it sounds once for every cast."""

    full_name = "bell.ring"

    tone: Annotated[str, Meta(description="which tone")]
    times: int = 1


class Look(Spell, frozen=True, kw_only=True):
    """Look at the bell, which changes nothing."""

    full_name = "bell.look"
    idempotent = True

    side: str = "front"


class Wait(Spell, frozen=True, kw_only=True):
    """Wait for the bell, and not for ever."""

    full_name = "bell.wait"
    max_seconds = 0.0

    tone: str = "never"


class Pray(Spell, frozen=True, kw_only=True):
    """A spell of a substrate that nobody configured."""

    full_name = "temple.pray"


SPELLS: dict[str, type[Spell]] = {spell.name(): spell for spell in (Ring, Look, Wait, Pray)}


class Bell:
    """A substrate: `casts` are the side effects, in order; a held tone does not end until it is released."""

    def __init__(self) -> None:
        self.casts: list[tuple[Spell, Casting]] = []
        self.answer: Callable[[Spell], Any] = lambda spell: {"heard": spell.__struct_fields__}
        self.held: dict[str, asyncio.Event] = {}
        self._cast = asyncio.Condition()

    def hold(self, tone: str) -> asyncio.Event:
        return self.held.setdefault(tone, asyncio.Event())

    async def has_cast(self, number: int) -> None:
        """Returns when that many casts have begun."""
        async with self._cast:
            await self._cast.wait_for(lambda: len(self.casts) >= number)

    async def cast(self, spell: Spell, casting: Casting) -> Any:
        async with self._cast:
            self.casts.append((spell, casting))
            self._cast.notify_all()
        held = self.held.get(getattr(spell, "tone", getattr(spell, "side", "")))
        if held is not None:
            await held.wait()
        answer = self.answer(spell)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def close(self) -> None:
        pass


class Workshop:
    """What the tests share: one store, and services over it that come and go as processes do."""

    def __init__(self, store: Store, journal: Journal, bell: Bell) -> None:
        self.store, self.journal, self.bell = store, journal, bell

    async def service(self, owner: str = "first", substrates: dict[str, Substrate] | None = None, **options: Any):
        journal = await self.store.open("spellcasting", SPELLCASTING.registry())
        configured = {"bell": self.bell} if substrates is None else substrates
        return SpellcastingService("spellcasting", journal, configured, SPELLS, owner=owner, **options)

    @asynccontextmanager
    async def running(self, owner: str = "first", **options: Any) -> AsyncIterator[asyncio.Task[None]]:
        """A service that serves; leaving cuts it off wherever it is, as a kill would."""
        async with living(await self.service(owner, **options), may_end=True) as task:
            yield task

    async def invoke(self, call: str, spell: str = "bell.ring", session: str = "s", **arguments: Any) -> Record[Entry]:
        entry = SpellInvocation(correlation_id=call, spell=spell, arguments=arguments, grants=("net",))
        appended = await self.journal.append(entry, session=session, correlation_id=call, origin="console")
        return appended.record

    async def outcome(self, call: str) -> Record[Entry]:
        return await self.journal.wait_for(call, kinds=OUTCOMES, timeout=60)

    async def kinds(self, session: str | None = None) -> list[str]:
        return [record.kind async for record in self.journal.read(session=session)]


@pytest.fixture
def bell() -> Bell:
    return Bell()


@pytest.fixture
async def workshop(store: Store, bell: Bell) -> Workshop:
    return Workshop(store, await store.open("spellcasting", SPELLCASTING.registry()), bell)
