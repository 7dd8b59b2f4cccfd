"""Answers on their way into channels: each of their messages is sent once, also over kills and lost connections."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from branches.chat import ChatEfferent
from branches.chat.live import Away, Shown, Writings, until_back
from journals import Record
from leaves.chats.discord.outgoing import Part, nonce
from leaves.chats.discord.pace import can_wait
from leaves.chats.discord.recovery import before, snowflake
from policies import Clock

if TYPE_CHECKING:
    from leaves.chats.discord.client import Bot

_REMEMBERED = 10_000
_CLOCKS_DIFFER_S = 60.0


class Sending:
    """One life of a bot, as far as it speaks."""

    def __init__(self, bot: Bot, writings: Writings[int], clock: Clock) -> None:
        self._bot, self._writings, self._clock = bot, writings, clock
        self._known: OrderedDict[str, None] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Sending by {self._bot!r}, {len(self._known)} prompts known>"

    def know(self, about: str) -> None:
        """Of the answers to this prompt, or of a conversation, nothing stands on Discord that we do not know of."""
        self._known[about] = None
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    async def bring(
        self, channel: int, message: Record[ChatEfferent], wanted: list[Part], reply_to: int | None, shown: Shown[int]
    ) -> list[int]:
        """Send an answer, of which messages may have been `shown` while it was being written; gives their ids.

        Waits as long as Discord is away. Raises `DeliveryFailed`.
        """
        sent, there = list[int](), shown.messages
        about = message.correlation_id or message.session
        looked = about in self._known and not shown.lost
        self.know(about)
        while True:
            try:
                if not looked:
                    sent, there = await self._find(channel, message, wanted, reply_to)
                    looked = True
                return await self._send(channel, message, wanted, reply_to, sent, there)
            except Away as error:
                looked, sent = False, []
                await until_back(self._clock, error)

    async def _send(
        self,
        channel: int,
        message: Record[ChatEfferent],
        wanted: list[Part],
        reply_to: int | None,
        sent: list[int],
        there: list[int],
    ) -> list[int]:
        """Bring the answer: what was sent stays, what was being written becomes it, the rest is new."""
        bot, ids = self._bot, list(sent)
        for number, part in enumerate(wanted[len(sent) :], len(sent)):
            if there and await bot.edit(channel, there[0], part):
                ids.append(there.pop(0))
                continue
            del there[:1]
            ids.append(await bot.send(channel, part, nonce(message.id, number), reply_to if number == 0 else None))
        while there:
            await bot.delete(channel, there[0])
            del there[0]
        return ids

    async def _find(
        self, channel: int, message: Record[ChatEfferent], wanted: list[Part], reply_to: int | None
    ) -> tuple[list[int], list[int]]:
        """What was sent of this answer before, and what is left of it that was still being written."""
        committed = message.time - _CLOCKS_DIFFER_S
        found = {said.id: said for said in await self._bot.ours(channel, snowflake(committed))}
        if reply_to is not None:
            found |= {said.id: said for said in await self._bot.ours(channel, reply_to)}
        for id in self._writings.messages:
            found.pop(id, None)
        return before([found[id] for id in sorted(found)], [part.text for part in wanted], reply_to, committed)


class Room:
    """Where one answer is shown while it is being written."""

    def __init__(self, bot: Bot, channel: int, reply_to: int | None) -> None:
        self._bot, self._channel, self._reply_to = bot, channel, reply_to

    async def begin(self, stream: str, number: int, text: str) -> int:
        """See `branches.chat.live.Room`."""
        reply_to = self._reply_to if number == 0 else None
        with can_wait():
            return await self._bot.send(self._channel, Part(text), nonce(stream, number), reply_to)

    async def change(self, message: int, text: str) -> object:
        """See `branches.chat.live.Room`."""
        with can_wait():
            return await self._bot.edit(self._channel, message, Part(text))

    async def remove(self, message: int) -> None:
        """See `branches.chat.live.Room`."""
        await self._bot.delete(self._channel, message)
