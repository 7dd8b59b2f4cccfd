"""The chat leaf of Slack: a channel, a thread or a direct message is a conversation."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

import msgspec

from branches.attachment import Attachment, take
from branches.chat import ChatAfferent, ChatChunk, ChatEfferent, ChatStreamCompleted
from branches.chat.entries import ChatAnswer
from branches.chat.forks import Wish, wish
from branches.chat.inbox import Inbox
from branches.chat.incoming import Where, author, is_meant, prompt
from branches.chat.leaf import ChatPort, DeliveryFailed, ForkRefused
from branches.chat.live import Away, Writings
from branches.chat.questions import NOT_YOURS, Answered, OpenQuestions
from branches.chat.windows import Window
from branches.secret import Secret
from journals import Entry, InvalidEntry, Record
from leaves.chats.slack.incoming import Command, Interaction, Message, Place, behind_a_command
from leaves.chats.slack.missed import Look, Missed
from leaves.chats.slack.mrkdwn import escape, mentioned, readable
from leaves.chats.slack.options import APP_TOKEN, BOT_TOKEN, SlackOptions
from leaves.chats.slack.outgoing import answered, asking, parts, pressed, unfinished
from leaves.chats.slack.places import place_of, session_of
from leaves.chats.slack.sending import Room, Sending
from policies import Clock, SystemClock

if TYPE_CHECKING:
    from leaves.chats.slack.client import Bot
    from leaves.chats.slack.socket import Received

_REMEMBERED = 10_000
_REDELIVERED_S = 3600.0  # Slack gives up much earlier
_log = logging.getLogger("coven.chat")


class Slack:
    """One Slack app in one workspace.

    A message is one prompt for ever, by its id in the journal, and is acknowledged once it is there. Each message of an
    answer is marked with the answer's id in its metadata; one that an earlier life may have sent is looked for first.
    """

    def __init__(self, options: SlackOptions, name: str, *, clock: Clock | None = None) -> None:
        """Raises `SecretUnset` if a token is missing."""
        self._options, self._name, self._clock = options, name, clock or SystemClock()
        self._tokens = (
            options.bot_token or Secret(f"${{{BOT_TOKEN}}}", os.environ),
            options.app_token or Secret(f"${{{APP_TOKEN}}}", os.environ),
        )
        for token in self._tokens:
            token.reveal()
        self._begin()

    def _begin(self) -> None:
        """Nothing is known of the world: a start, also one after a failure."""
        self._bot: Bot | None = None
        self._heard: OrderedDict[str, None] = OrderedDict()
        self._open = OpenQuestions()

    def __repr__(self) -> str:
        return f"<Slack {self._name} {len(self._heard)} messages heard, {self._open}>"

    @property
    def window(self) -> Window:
        """See `WindowedLeaf`."""
        return self._options.window

    async def run(self, port: ChatPort, ready: Callable[[], None]) -> None:
        """See `ChatLeaf.run`. Raises `SetupError` for a token or an app that is not as it has to be."""
        from leaves.chats.slack.client import Bot
        from leaves.chats.slack.socket import Socket

        self._begin()
        self._port, self._began = port, self._clock.now()
        self._earlier = await port.taken_since(self._began - max(_REDELIVERED_S, self._options.catch_up_s))
        bot_token, app_token = (token.reveal() for token in self._tokens)
        bot = Bot(bot_token, app_token, self._clock, api=self._options.api)
        async with bot, asyncio.TaskGroup() as tasks:
            await bot.sign_in()
            self._bot, self._inbox = bot, Inbox(tasks, self._handle)
            self._writings: Writings[str] = Writings(tasks, unfinished, self._clock, self._options.edit_every_s)
            self._sending = Sending(bot, port, self._writings, self._clock, self._began)
            for waiting in self._earlier.waiting:
                self._writings.expect(waiting.id, waiting.session)
            self._missed = Missed(
                *(bot, port, self._earlier, self._options, self._clock, tasks),
                put=lambda look: self._inbox.put(look.channel, (None, look)),
            )
            self._socket = Socket(bot.address, self._take, self._clock)

            def connected(heard: float | None) -> None:
                self._missed.connected(heard)
                ready()

            await self._socket.run(connected)

    async def deliver(self, message: Record[ChatEfferent]) -> str | None:
        """See `ChatLeaf.deliver`; gives the id of the answer's first message. Waits as long as Slack is away."""
        place, entry = place_of(message.session), message.entry
        wanted = (
            parts(entry.text, entry.attachments)
            if entry.question is None
            else asking(entry.text, entry.question, entry.choices)
        )
        if entry.question is not None:
            self._open.add(message)
        async with self._writings.answering(message.correlation_id or message.id, message.session) as shown:
            return await self._sending.bring(place, message, wanted, shown)

    async def remind(self, message: Record[ChatEfferent]) -> None:
        """See `RemindingLeaf.remind`: it stands in its channel, and its buttons work."""
        self._open.add(message)

    async def show(self, chunk: Record[ChatChunk | ChatStreamCompleted]) -> None:
        """See `StreamingLeaf.show`."""
        if self._options.stream:
            key = chunk.correlation_id or ""
            self._writings.show(chunk, lambda: Room(self._connected, place_of(chunk.session), key))

    @property
    def _connected(self) -> Bot:
        assert self._bot is not None, "deliver and show are called while run is"
        return self._bot

    def _take(self, received: Received) -> None:
        """Queue what came behind the rest of its channel."""
        if not received.envelope.envelope_id:  # it wants no acknowledgement, and tells us nothing
            return
        try:
            content = received.envelope.read()
        except msgspec.ValidationError as error:
            _log.warning("Slack sent a %s that cannot be read: %s", received.envelope.type, error)
            content = None
        if isinstance(content, Message) and content.by_a_person:  # a command cannot wait: Slack shows it as failed
            self._missed.before(content.channel)
        match content:
            case Message(channel=channel) | Command(channel_id=channel):
                self._inbox.put(channel, (received, content))
            case Interaction(container=container):
                self._inbox.put(container.channel_id, (received, content))
            case _:
                self._inbox.put(None, (received, None))

    async def _handle(self, item: tuple[Received | None, Message | Command | Interaction | Look | None]) -> None:
        """Handle what came, and acknowledge it when it is recorded."""
        received, content = item
        told: Mapping[str, Any] | None = None
        match content:
            case Message():
                await self._hear(content)
            case Command():
                told = await self._obey(content)
            case Interaction():
                await self._press(content)
            case Look():
                await self._catch_up(content)
            case None:
                pass
        if received is not None:
            await self._socket.acknowledge(received, told)

    async def _catch_up(self, look: Look) -> None:
        for message in await self._missed.said(look):
            came = [content for _, content in self._inbox.waiting(look.channel)]
            if message.id not in behind_a_command(came):  # after a `/reset`, for one, it is of another conversation
                await self._hear(message)

    async def _hear(self, message: Message) -> None:
        bot, options, said = self._connected, self._options, message.text or ""
        if not message.by_a_person or message.user in (None, bot.user) or message.id in self._heard:
            return
        place = message.place
        mentions = mentioned(said)
        addressed = message.type == "app_mention" or bot.user in mentions or message.parent_user_id == bot.user
        where = Where(place.channel, None, place.direct, addressed)
        if not is_meant(where, options) and not (
            is_meant(where._replace(addressed=True), options) and await self._began_with_us(place)
        ):
            return
        if options.threads and not place.direct and place.thread is None:
            place = place._replace(thread=message.ts)
        names = {user: await self._name_of(user) for user in dict.fromkeys(mentions) if user != bot.user}
        said = said.strip().removeprefix(f"<@{bot.user}>").removesuffix(f"<@{bot.user}>")
        said, name = readable(said, names).strip(), author(await self._name_of(message.user))
        asked = self._open.answered_by(session_of(place), said)
        if asked is not None and asked.may_come_from(message.user):
            await self._answer(asked, message.user, message.id)
        elif said or message.files:
            files = [await bot.file(file, options.attachment_chars) for file in message.files or ()]
            taken = take(files, options.attachment_chars)
            text = prompt(said, name if options.name_authors else None, taken.told)
            await self._record(place, name, text, message.id, taken.images)
        self._heard[message.id] = None
        if len(self._heard) > _REMEMBERED:
            self._heard.popitem(last=False)

    async def _began_with_us(self, place: Place) -> bool:
        """Whether a thread began with a message that was a prompt."""
        if place.thread is None:
            return False
        history = cast("AsyncGenerator[Record[Entry]]", self._port.history(session_of(place)))
        async with aclosing(history) as said:
            async for record in said:
                entry = record.entry
                return isinstance(entry, ChatAfferent) and entry.message_id == f"{place.channel}:{place.thread}"
        return False

    async def _obey(self, command: Command) -> Mapping[str, Any] | None:
        """Do what a slash command says; gives what is shown for it. Slack offers none in threads."""
        place, user = Place(command.channel_id), command.user_id
        if command.name not in ("ask", "reset", "fork", "approve"):
            return _alone(f"I know no {escape(command.command)}.")
        if not is_meant(Where(place.channel, None, place.direct, True), self._options):
            return _alone("I do not listen here.")
        name, id, text = author(await self._name_of(user)), f"command:{command.trigger_id}", command.text.strip()
        if command.name == "reset":
            await self._port.begin_anew(session_of(place), id)
            return _for_all(f"*{escape(name)}* began a new conversation: I know nothing of the last one.")
        if command.name == "fork":
            return await self._fork(place, name, wish(text), id)
        if command.name == "approve":
            asked = self._open.answered_by(session_of(place), text or "yes")
            if asked is None:
                return _alone("No question is open here that this answers.")
            if not asked.may_come_from(user):
                return _alone(NOT_YOURS)
            await self._answer(asked, user, id)
            return _for_all(f"*{escape(name)}*: {escape(asked.answer)}")
        if not text:
            return _alone(f"What do you want to ask? `{escape(command.command)} what is new?`")
        return _for_all(f"*{escape(name)}*: {escape(await self._say(place, name, text, id))}")

    async def _fork(self, place: Place, name: str, wanted: Wish, id: str) -> Mapping[str, Any]:
        try:
            await self._port.fork(session_of(place), id, back=wanted.back)
        except ForkRefused as refused:
            return _alone(escape(str(refused)))
        told = f"*{escape(name)}* goes on from {wanted.place}, in another conversation"
        if not wanted.text:
            return _for_all(f"{told}.")
        return _for_all(f"{told}: {escape(await self._say(place, name, wanted.text, id))}")

    async def _say(self, place: Place, name: str, text: str, id: str) -> str:
        """Record what was said by a command; gives it as people read it."""
        names = {mention: await self._name_of(mention) for mention in dict.fromkeys(mentioned(text))}
        said = readable(text, names)
        await self._record(place, name, prompt(said, name if self._options.name_authors else None), id)
        return said

    async def _press(self, interaction: Interaction) -> None:
        """A button was pressed: it answers the question that it belongs to, in the place where that was asked."""
        container, user = interaction.container, interaction.user.id
        place = Place(container.channel_id, container.thread_ts)
        for button in interaction.actions:
            number = pressed(button.action_id)
            if number is None:
                continue
            asked = self._open.chosen(button.value, number)
            try:
                if asked is None or place_of(asked.session).channel != place.channel:
                    await self._connected.whisper(place, user, "No question is open here that this answers.")
                    continue
                if not asked.may_come_from(user):
                    await self._connected.whisper(place, user, NOT_YOURS)
                    continue
                await self._answer(asked, user, f"press:{interaction.trigger_id}")
                blocks: list[Mapping[str, Any]] = interaction.message.get("blocks") or []
                told = f"*{escape(author(await self._name_of(user)))}*: {escape(asked.answer)}"
                await self._connected.edit(place, container.message_ts, answered(blocks, told))
            except (Away, DeliveryFailed) as error:
                _log.warning("what was pressed is recorded, and could not be shown: %s", error)

    async def _answer(self, said: Answered, by: str, message_id: str) -> None:
        """What was answered is recorded under the id of who answered: a name can be taken by another."""
        try:
            recorded = await self._port.answer(said.session, said.question, said.answer, by, message_id)
        except InvalidEntry as error:
            _log.warning("an answer from Slack cannot be recorded: %s", error)
            return
        if isinstance(recorded.entry, ChatAnswer):
            self._open.close(recorded.entry.correlation_id)

    async def _record(
        self, place: Place, sender: str, text: str, message_id: str, images: tuple[Attachment, ...] = ()
    ) -> None:
        try:
            record = await self._port.receive(session_of(place), sender, text, message_id, images)
        except InvalidEntry as error:
            _log.warning("a message from Slack cannot be recorded: %s", error)
            return
        if isinstance(record.entry, ChatAfferent):
            self._writings.expect(record.id, record.session)
            if message_id not in self._earlier:
                self._sending.know(record.id)

    async def _name_of(self, user: str) -> str:
        """What a person is called; the id when Slack does not say, so that nobody waits for a name."""
        try:
            return await self._connected.name_of(user)
        except Away as error:
            _log.warning("the name of %s is not known: %s", user, error)
            return user


def _alone(text: str) -> Mapping[str, Any]:
    return {"response_type": "ephemeral", "text": text}


def _for_all(text: str) -> Mapping[str, Any]:
    return {"response_type": "in_channel", "text": text}
