"""Answers on their way into places: each of their messages is sent once, as far as Slack lets us look."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from branches.chat import ChatEfferent
from branches.chat.leaf import ChatPort
from branches.chat.live import Away, Shown, Writings, until_back
from journals import Record
from leaves.chats.slack.incoming import Place
from leaves.chats.slack.outgoing import Mark, Part
from leaves.chats.slack.recovery import before
from policies import Clock

if TYPE_CHECKING:
    from leaves.chats.slack.client import Bot

_REMEMBERED = 10_000
_CLOCKS_DIFFER_S = 60.0


class Sending:
    """One life of an app, which `began` then, as far as it speaks."""

    def __init__(self, bot: Bot, port: ChatPort, writings: Writings[str], clock: Clock, began: float) -> None:
        self._bot, self._port, self._writings = bot, port, writings
        self._clock, self._began = clock, began
        self._known: OrderedDict[str | None, None] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Sending by {self._bot!r}, {len(self._known)} prompts known>"

    def know(self, prompt: str) -> None:
        """Of the answers to this prompt nothing stands on Slack that we do not know of."""
        self._known[prompt] = None
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    async def bring(self, place: Place, message: Record[ChatEfferent], wanted: list[Part], shown: Shown[str]) -> str:
        """Send an answer, of which messages may have been `shown` while it was being written; gives the first one's id.

        Of an answer to a prompt of this life, or that was committed in it, nothing stands there that we do not know of.
        Waits as long as Slack is away. Raises `DeliveryFailed`.
        """
        sent, there = dict[int, str](), shown.messages
        ours = message.correlation_id in self._known or message.time > self._began + _CLOCKS_DIFFER_S
        looked = ours and not shown.lost
        while True:
            try:
                if not looked:
                    found, left = await self._find(place, message)
                    sent = {**found, **sent}  # what we know ourselves counts also where nothing may be read
                    there = [ts for ts in dict.fromkeys([*there, *left]) if ts not in sent.values()]
                    looked = True
                return await self._send(place, message, wanted, sent, there)
            except Away as error:
                looked = False
                await until_back(self._clock, error)

    async def _send(
        self,
        place: Place,
        message: Record[ChatEfferent],
        wanted: list[Part],
        sent: dict[int, str],
        there: list[str],
    ) -> str:
        """Bring the answer: what was sent stays, what was being written becomes it, the rest is new."""
        for number, part in enumerate(wanted):
            mark = Mark(message.id, message.correlation_id or message.id, number)
            while number not in sent and there and not part.files:
                if await self._bot.edit(place, there[0], part, mark):
                    sent[number] = there[0]
                del there[0]
            if number not in sent:
                sent[number] = await self._bot.send(place, part, mark)
        while there:
            await self._bot.delete(place, there[0])
            del there[0]
        return sent[0]

    async def _find(self, place: Place, message: Record[ChatEfferent]) -> tuple[dict[int, str], list[str]]:
        """What was sent of this answer before, and what is left of it that was still being written."""
        asked = await self._port.prompt_of(message)
        since = min(message.time, asked.time if asked is not None else message.time) - _CLOCKS_DIFFER_S
        found = [one for one in await self._bot.ours(place, since) if one.ts not in self._writings.messages]
        return before(found, message.id, message.correlation_id or message.id)


class Room:
    """Where one answer is shown while it is being written."""

    def __init__(self, bot: Bot, place: Place, prompt: str) -> None:
        self._bot, self._place, self._prompt = bot, place, prompt

    async def begin(self, stream: str, number: int, text: str) -> str:
        """See `branches.chat.live.Room`."""
        return await self._bot.send(self._place, Part(text), Mark("", self._prompt, number))

    async def change(self, message: str, text: str) -> object:
        """See `branches.chat.live.Room`."""
        return await self._bot.edit(self._place, message, Part(text))

    async def remove(self, message: str) -> None:
        """See `branches.chat.live.Room`."""
        await self._bot.delete(self._place, message)
