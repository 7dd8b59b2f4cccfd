"""What was said while nobody listened: after a start or a lost connection, each conversation is looked at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from branches.chat.incoming import Where, is_meant
from branches.chat.leaf import ChatPort
from branches.chat.live import Away, until_back
from branches.chat.taken import Taken
from leaves.chats.slack.failures import Refused, SetupError, missing
from leaves.chats.slack.incoming import Message, Place
from leaves.chats.slack.options import SlackOptions
from leaves.chats.slack.places import place_or_none
from policies import Clock, sleep_until

if TYPE_CHECKING:
    from leaves.chats.slack.client import Bot

_DIRECT = {"im": "im:read"}
_CHANNELS = {"mpim": "mpim:read", "private_channel": "groups:read", "public_channel": "channels:read"}
_MOST = 1000
_AT_ONCE, _EVERY_S = 20, 1.5  # Slack grants some fifty requests of a kind a minute, and answers need some of them
_EARLIER_S, _LATER_S = 60.0, 600.0  # clocks differ
_log = logging.getLogger("coven.chat")

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Round:
    """Once through all conversations: what was said between these times. `known` has those of the journal."""

    since: float
    until: float
    known: asyncio.Task[Mapping[str, set[str]]]
    """Their threads, by channel."""
    looked: set[str] = field(default_factory=set[str])
    """The channels whose turn has come."""


class Look(NamedTuple):
    """To be taken in a channel, before anything newer there: what `Missed.said` gives of it is to be heard."""

    channel: str
    round: Round


class Missed:
    """Finds out in which conversations something may have been missed, and what people said there.

    `put` gets a look at each, one after the other: those that are known first, then direct messages, then channels;
    and one at once where something new is said.
    """

    def __init__(
        self,
        bot: Bot,
        port: ChatPort,
        earlier: Taken,
        options: SlackOptions,
        clock: Clock,
        tasks: asyncio.TaskGroup,
        put: Callable[[Look], object],
    ) -> None:
        self._bot, self._port, self._earlier, self._options = bot, port, earlier, options
        self._clock, self._tasks, self._put = clock, tasks, put
        self._round: Round | None = None
        self._looking: asyncio.Task[None] | None = None
        self._rounds, self._due = 0, 0.0
        self._told = set[str]()

    def __repr__(self) -> str:
        left = f"{len(self._round.looked)} conversations looked at" if self._round is not None else "nothing left"
        return f"<Missed round {self._rounds}, {left}>"

    def connected(self, heard: float | None) -> None:
        """There is a connection. Slack was heard last at this time; None if nothing was missed since."""
        if heard is None or not self._options.catch_up_s:
            return
        now, since = self._clock.now(), heard - _EARLIER_S
        if self._round is not None and self._looking is not None:  # it has not come to its end, and begins again
            since = min(since, self._round.since)
            self._looking.cancel()
        self._rounds += 1
        known = self._tasks.create_task(self._known(now - self._options.catch_up_s))
        self._round = Round(max(since, now - self._options.catch_up_s), now + _LATER_S, known)
        self._looking = self._tasks.create_task(self._look_around(self._round))

    def before(self, channel: str) -> None:
        """Let what was missed in a channel come now, if its turn has not come yet."""
        if self._round is not None and self._is_due(channel, self._round):
            self._round.looked.add(channel)
            self._put(Look(channel, self._round))

    async def said(self, look: Look) -> list[Message]:
        """What was said in a channel and its threads and is not recorded of an earlier life, oldest first.

        Waits as long as Slack is away; nothing where we may not read. Raises `SetupError`.
        """
        round, found = look.round, dict[str, Message]()
        threads = {*(await asyncio.shield(round.known)).get(look.channel, ())}
        for message in await self._read(Place(look.channel), round):
            found[message.ts] = message
            if message.latest_reply is not None and float(message.latest_reply) > round.since:
                threads.add(message.ts)
            if message.place.thread is not None and float(message.ts) > round.since:  # a reply that the channel has too
                threads.add(message.place.thread)
        for thread in sorted(threads):
            found |= {message.ts: message for message in await self._read(Place(look.channel, thread), round)}
        missed = [found[ts] for ts in sorted(found) if float(ts) > round.since]
        return [message for message in missed if message.id not in self._earlier]

    async def _read(self, place: Place, round: Round) -> list[Message]:
        try:
            return await self._patiently(lambda: self._bot.said(place, round.since, round.until))
        except Refused as refused:
            _log.info("what was missed in %s is not known: %s", ":".join(filter(None, place)), refused)
        except SetupError as error:
            if error.code != "missing_scope":
                raise
            self._tell(f"what was missed is not known everywhere: {error}")
        return []

    async def _look_around(self, round: Round) -> None:
        options, lacking = self._options, list[str]()
        known = sorted(await round.known, key=lambda channel: (not Place(channel).direct, channel))
        await self._look((*known, *options.channels), round)
        kinds = {**(_DIRECT if options.direct_messages else {}), **(_CHANNELS if not options.channels else {})}
        for kind, scope in kinds.items():
            listed = await self._listed(kind)
            if listed is None:
                lacking.append(scope)
            else:
                await self._look(listed, round)
        if lacking:
            told = "what was missed is looked for in conversations that are known, not in all that the bot is in"
            self._tell(f"{told}; {missing(', '.join(lacking))}")
        elif len(round.looked) < _MOST:
            self._round = None

    async def _look(self, channels: Iterable[str], round: Round) -> None:
        for channel in channels:
            if not self._is_due(channel, round):
                continue
            if len(round.looked) >= _MOST:
                self._tell(f"what was missed is looked for in {_MOST} conversations of Slack, and there are more")
                return
            await self._turn()
            self.before(channel)

    async def _listed(self, kind: str) -> list[str] | None:
        """The conversations of a kind that the bot is in; None where a scope is missing to know them."""
        await self._turn()
        try:
            return await self._patiently(lambda: self._bot.conversations(kind, _MOST))
        except Refused as refused:
            self._tell(f"what was missed is not known everywhere: {refused}")
            return []
        except SetupError as error:
            if error.code != "missing_scope":
                raise
            return None

    async def _known(self, since: float) -> Mapping[str, set[str]]:
        taken = self._earlier if self._rounds == 1 else await self._port.taken_since(since)
        known = dict[str, set[str]]()
        for place in map(place_or_none, taken.conversations):
            if place is not None:
                known.setdefault(place.channel, set()).update({place.thread} if place.thread is not None else ())
        return known

    def _is_due(self, channel: str, round: Round) -> bool:
        where = Where(channel, None, Place(channel).direct, True)
        return channel not in round.looked and is_meant(where, self._options)

    async def _turn(self) -> None:
        """Wait until Slack may be asked for more: some times at once, and then not too often."""
        self._due = max(self._due, self._clock.now() - _AT_ONCE * _EVERY_S) + _EVERY_S
        await sleep_until(self._clock, self._due)

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await ask()
            except Away as error:
                await until_back(self._clock, error)

    def _tell(self, text: str) -> None:
        """Say something in the log, once."""
        if text not in self._told:
            self._told.add(text)
            _log.warning("%s", text)
