"""The chat leaf of Discord: a channel, a thread or a direct message is a conversation."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from branches.attachment import Attachment, take
from branches.chat import ChatAfferent, ChatChunk, ChatEfferent, ChatStreamCompleted
from branches.chat.entries import ChatAnswer
from branches.chat.forks import Wish
from branches.chat.inbox import Inbox
from branches.chat.incoming import author, is_meant, prompt
from branches.chat.leaf import ChatPort, DeliveryFailed, ForkRefused
from branches.chat.live import Away, Writings, until_back
from branches.chat.questions import NOT_YOURS, Answered, OpenQuestions
from branches.chat.windows import Window
from branches.secret import Secret
from journals import InvalidEntry, Record
from leaves.chats.discord.options import TOKEN, DiscordOptions
from leaves.chats.discord.outgoing import buttons, forked, parts, to_the_letter, unfinished
from leaves.chats.discord.pace import Pace
from leaves.chats.discord.places import SESSION, channel_of, channel_or_none, message_id
from leaves.chats.discord.recovery import snowflake
from leaves.chats.discord.sending import Room, Sending
from leaves.chats.discord.typing_indicator import Typing
from policies import Clock, SystemClock

if TYPE_CHECKING:
    import discord

    from leaves.chats.discord.client import Bot, Incoming
    from leaves.chats.discord.interactions import Interaction

_COMMAND = "ask:"
_REMEMBERED = 10_000
_log = logging.getLogger("coven.chat")

T = TypeVar("T")


class Discord:
    """One Discord bot.

    A message is one prompt for ever, by its id in the journal. An answer is sent once: each of its messages has a
    nonce that comes from the answer's id, and an answer to a prompt of an earlier life looks at what is there already.
    """

    def __init__(self, options: DiscordOptions, name: str, *, clock: Clock | None = None) -> None:
        """Raises `SecretUnset` if there is no token."""
        self._options, self._name, self._clock = options, name, clock or SystemClock()
        self._token = options.token or Secret(f"${{{TOKEN}}}", os.environ)
        self._token.reveal()
        self._bot: Bot | None = None
        self._begin()

    def _begin(self) -> None:
        """Nothing is known of the world: a start, also one after a failure."""
        self._last: dict[int, int] = {}
        self._asked: OrderedDict[str, int | None] = OrderedDict()
        self._open = OpenQuestions()
        self._caught_up: set[int] = set()
        self._looked_around = False

    def __repr__(self) -> str:
        return f"<Discord {self._name} {len(self._last)} channels, {self._open}>"

    @property
    def window(self) -> Window:
        """See `WindowedLeaf`."""
        return self._options.window

    async def run(self, port: ChatPort, ready: Callable[[], None]) -> None:
        """See `ChatLeaf.run`. Raises what `discord.py` raises for a bad token and for intents that are not granted."""
        from leaves.chats.discord.client import Bot

        self._begin()
        self._port = port
        self._began = time.time()
        since = self._began - self._options.catch_up_s
        self._taken, self._since = await port.taken_since(since), snowflake(since)
        connections = 0

        def connected() -> None:
            nonlocal connections
            connections += 1
            if connections == 1:
                for conversation in self._taken.conversations:
                    self._look_back(channel_or_none(conversation))
                ready()
            else:
                self._tasks.create_task(self._catch_up())

        def loaded() -> None:
            for channel in bot.spoken_in(self._since):
                self._look_back(channel)
            self._looked_around = True

        options, pace = self._options, Pace(SystemClock(), self._options.requests_per_s)
        bot = Bot(self._take, connected, loaded, commands=options.commands, pace=pace, api=options.api)
        with closing(pace):
            async with bot, asyncio.TaskGroup() as self._tasks:
                self._bot, self._inbox = bot, Inbox(self._tasks, self._handle)
                self._writings: Writings[int] = Writings(self._tasks, unfinished, self._clock, options.edit_every_s)
                self._typing = Typing(self._tasks, bot.show_typing, self._clock)
                self._sending = Sending(bot, self._writings, self._clock)
                for waiting in self._taken.waiting:
                    self._expect(waiting.id, waiting.session, waiting.entry)
                await bot.start(self._token.reveal())
                raise ConnectionError("the connection to Discord has ended")

    async def deliver(self, message: Record[ChatEfferent]) -> str | None:
        """See `ChatLeaf.deliver`; gives the id of the answer's first message. Waits as long as Discord is away."""
        channel, asked = channel_of(message.session), message.entry.question
        wanted = parts(
            to_the_letter(message.entry.text) if asked is not None and message.entry.choices else message.entry.text,
            attach_over=self._options.attach_over,
            max_messages=self._options.max_messages,
            attachments=message.entry.attachments,
        )
        if asked is not None:
            wanted[-1] = wanted[-1]._replace(buttons=buttons(asked, message.entry.choices))
            self._open.add(message)
        reply_to = await self._reply_to(message)
        async with self._writings.answering(message.correlation_id or message.id, message.session) as shown:
            ids = await self._sending.bring(channel, message, wanted, reply_to, shown)
        self._asked.pop(message.correlation_id or "", None)
        self._typing.stop(message.correlation_id)
        return str(ids[0])

    async def remind(self, message: Record[ChatEfferent]) -> None:
        """See `RemindingLeaf.remind`: it stands in its channel, and its buttons work."""
        self._open.add(message)

    async def show(self, chunk: Record[ChatChunk | ChatStreamCompleted]) -> None:
        """See `StreamingLeaf.show`."""
        key = chunk.correlation_id or ""
        if self._options.stream and self._writings.show(
            chunk, lambda: Room(self._connected, channel_of(chunk.session), self._asked.get(key))
        ):
            self._typing.stop(key)

    @property
    def _connected(self) -> Bot:
        assert self._bot is not None, "deliver and show are called while run is"
        return self._bot

    async def _reply_to(self, message: Record[ChatEfferent]) -> int | None:
        """The message that this one answers, where that is a message."""
        key = message.correlation_id
        if key is not None and key in self._asked:
            return self._asked[key]
        asked = await self._port.prompt_of(message)
        return None if asked is None else message_id(asked.entry)

    def _take(self, incoming: Incoming) -> None:
        id, channel = _ids(incoming)
        if not self._looked_around:
            self._look_back(channel)
        self._caught_up.add(channel)
        self._inbox.put(channel, incoming, id)

    def _look_back(self, channel: int | None) -> None:
        """Let what was said there before we came, and is not recorded, come before all else; once in a life."""
        if channel is not None and channel not in self._caught_up and self._options.catch_up_s:
            self._caught_up.add(channel)
            self._inbox.put(channel, _Before(channel))

    async def _handle(self, incoming: Incoming | _Before) -> None:
        if isinstance(incoming, _Before):
            for message in await self._patiently(lambda: self._connected.said_after(incoming.channel, self._since)):
                if str(message.id) not in self._taken and self._inbox.new(message.id):
                    await self._hear(message)
        elif isinstance(incoming, tuple):
            await self._hear_command(incoming)
        else:
            await self._hear(incoming)

    async def _hear(self, message: discord.Message) -> None:
        channel, bot = message.channel.id, self._connected
        self._last[channel] = max(message.id, self._last.get(channel, 0))
        if message.author.bot or message.webhook_id is not None or message.is_system():
            return
        where, options = bot.where(message), self._options
        in_thread = options.channels and not where.direct and where.channel not in options.channels
        if in_thread and where.parent is None:
            try:
                where = where._replace(parent=await bot.parent(channel))
            except DeliveryFailed:
                return
        if not is_meant(where, options):
            return
        said, name = bot.text_of(message), author(message.author.display_name)
        asked = self._open.answered_by(f"{SESSION}{channel}", said)
        if asked is not None and asked.may_come_from(str(message.author.id)):
            await self._answer(asked, str(message.author.id), str(message.id))
            return
        files = await bot.files_of(message, options.attachment_chars)
        taken = take(files, options.attachment_chars)
        text = prompt(said, name if options.name_authors else None, taken.told)
        if said or files:
            await self._record(channel, name, text, str(message.id), taken.images)

    async def _hear_command(self, command: Interaction) -> None:
        from leaves.chats.discord.interactions import Approved, Asked, Fork, Reset, acknowledge, settle

        interaction = command.interaction
        channel, user = interaction.channel_id or 0, interaction.user
        name, id = author(user.display_name), f"{_COMMAND}{interaction.id}"
        try:
            if isinstance(command, Asked | Fork) and not is_meant(self._connected.place(interaction), self._options):
                await acknowledge(interaction, "I do not listen here.", alone=True)
                return
            if isinstance(command, Asked):
                text = prompt(command.text, name if self._options.name_authors else None)
                await self._record(channel, name, text, id)
                await acknowledge(interaction, f"**{name}**: {command.text}")
                return
            if isinstance(command, Reset):
                await self._port.begin_anew(f"{SESSION}{channel}", id)
                await acknowledge(interaction, f"**{name}** began a new conversation: I know nothing of the last one.")
                return
            if isinstance(command, Fork):
                try:
                    await self._port.fork(f"{SESSION}{channel}", id, back=command.back)
                except ForkRefused as refused:
                    await acknowledge(interaction, f"Not forked: {refused}.", alone=True)
                    return
                if command.text:
                    text = prompt(command.text, name if self._options.name_authors else None)
                    await self._record(channel, name, text, id)
                await acknowledge(interaction, forked(name, Wish(command.back, command.text)))
                return
            if isinstance(command, Approved):
                asked = self._open.answered_by(f"{SESSION}{channel}", command.answer)
            else:
                asked = self._open.chosen(command.question, command.number)
            if asked is None:
                await acknowledge(interaction, "No question is open here that this answers.", alone=True)
                return
            if not asked.may_come_from(str(user.id)):
                await acknowledge(interaction, NOT_YOURS, alone=True)
                return
            await self._answer(asked, str(user.id), id)
            if isinstance(command, Approved):
                await acknowledge(interaction, f"**{name}**: {asked.answer}")
            else:
                await settle(interaction, f"**{name}**: {asked.answer}")
        except (Away, DeliveryFailed) as error:
            _log.warning("a command is recorded, and could not be acknowledged: %s", error)

    async def _answer(self, answered: Answered, by: str, message_id: str) -> None:
        """What was answered is recorded under the id of who answered: a name can be taken by another."""
        try:
            recorded = await self._port.answer(answered.session, answered.question, answered.answer, by, message_id)
        except InvalidEntry as error:
            _log.warning("an answer from Discord cannot be recorded: %s", error)
            return
        if isinstance(recorded.entry, ChatAnswer):
            self._open.close(recorded.entry.correlation_id)

    async def _record(
        self, channel: int, sender: str, text: str, message_id: str, images: tuple[Attachment, ...] = ()
    ) -> None:
        try:
            record = await self._port.receive(f"{SESSION}{channel}", sender, text, message_id, images)
        except InvalidEntry as error:
            _log.warning("a message from Discord cannot be recorded: %s", error)
            return
        if not isinstance(record.entry, ChatAfferent):
            return
        if record.time >= self._began:
            self._sending.know(record.id)
        self._expect(record.id, record.session, record.entry)
        self._typing.start(record.id, channel)

    def _expect(self, prompt: str, session: str, asked: ChatAfferent) -> None:
        """An answer to this prompt will come: it may be shown while it is being written."""
        self._writings.expect(prompt, session)
        self._asked[prompt] = message_id(asked)
        if len(self._asked) > _REMEMBERED:
            self._asked.popitem(last=False)

    async def _catch_up(self) -> None:
        """The gateway began anew: what was said meanwhile, where we have heard something before, it does not bring."""
        for channel, last in list(self._last.items()):
            for message in await self._patiently(lambda c=channel, m=last: self._connected.said_after(c, m)):
                self._take(message)

    async def _patiently(self, ask: Callable[[], Awaitable[list[T]]]) -> list[T]:
        while True:
            try:
                return await ask()
            except DeliveryFailed:
                return []
            except Away as error:
                await until_back(self._clock, error)


class _Before(NamedTuple):
    """What was said in a channel before this life began."""

    channel: int


def _ids(incoming: Incoming) -> tuple[int, int]:
    if isinstance(incoming, tuple):
        return incoming.interaction.id, incoming.interaction.channel_id or 0
    return incoming.id, incoming.channel.id
