"""The bot: what comes from Discord and goes there by `discord.py`."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from types import SimpleNamespace
from typing import Any, NamedTuple

import aiohttp
import discord
import yarl
from discord import app_commands
from discord.gateway import DiscordWebSocket
from discord.http import Route

from branches.attachment import File, is_worth_reading
from branches.chat.incoming import Where
from branches.chat.leaf import DeliveryFailed
from branches.chat.live import Away
from leaves.chats.discord.failures import failures
from leaves.chats.discord.interactions import Approved, Asked, Fork, Pressed, Reset, offer
from leaves.chats.discord.outgoing import Part, pressed
from leaves.chats.discord.pace import Pace

_HISTORY = 2_000
_GUILD_READY_S = 0.5

discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False  # we do not speak


class Said(NamedTuple):
    """A message of ours that we find in a channel; `touched` is when it was sent or last edited."""

    id: int
    text: str
    reply_to: int | None
    touched: float


Incoming = discord.Message | Asked | Approved | Reset | Fork | Pressed


class Bot(discord.Client):
    """The connection to Discord. `take` gets what comes in, at once and in order; `connected` is called at each start,
    `loaded` whenever more is known of which channels there are.

    Nothing that it sends mentions anybody.
    """

    def __init__(
        self,
        take: Callable[[Incoming], None],
        connected: Callable[[], None],
        loaded: Callable[[], None],
        *,
        commands: bool,
        pace: Pace,
        api: str | None = None,
    ) -> None:
        intents = discord.Intents.none()
        intents.guilds = intents.guild_messages = intents.dm_messages = intents.message_content = True
        super().__init__(
            intents=intents,
            allowed_mentions=discord.AllowedMentions.none(),
            max_messages=None,
            guild_ready_timeout=_GUILD_READY_S,
            http_trace=_kept(pace),
        )
        self._take, self._connected, self._loaded, self._api = take, connected, loaded, api
        self._tree = app_commands.CommandTree(self) if commands else None
        if self._tree is not None:
            offer(self._tree, take)
        if api is not None:
            Route.BASE = api.rstrip("/")

    async def setup_hook(self) -> None:
        """Offer the commands, and find the gateway that belongs to another address."""
        if self._api is not None:
            _, url, _ = await self.http.get_bot_gateway()
            DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(url)
        if self._tree is not None:
            await self._tree.sync()

    def dispatch(self, event: str, /, *args: Any, **kwargs: Any) -> None:
        """What `discord.py` still has to tell when the bot is closed is told to nobody: there is no loop for it."""
        if not self.is_closed():
            super().dispatch(event, *args, **kwargs)

    async def on_connect(self) -> None:
        """A new session of the gateway has begun."""
        self._connected()

    async def on_ready(self) -> None:
        """The servers that there are have been told."""
        self._loaded()

    async def on_guild_available(self, guild: discord.Guild) -> None:
        """A server comes late."""
        self._loaded()

    async def on_message(self, message: discord.Message) -> None:
        """Somebody said something."""
        self._take(message)

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        """Somebody used something of ours; commands come through their tree."""
        if interaction.type is discord.InteractionType.component:
            button = pressed(str((interaction.data or {}).get("custom_id", "")))
            if button is not None:
                self._take(Pressed(interaction, *button))

    def where(self, message: discord.Message) -> Where:
        """Where a message stands, as far as we know without asking."""
        channel, me = message.channel, self.user
        parent = str(channel.parent_id) if isinstance(channel, discord.Thread) else None
        quoted = message.reference.resolved if message.reference is not None else None
        replies = isinstance(quoted, discord.Message) and me is not None and quoted.author.id == me.id
        addressed = replies or (me is not None and any(user.id == me.id for user in message.mentions))
        return Where(str(channel.id), parent, message.guild is None, addressed)

    def place(self, interaction: discord.Interaction) -> Where:
        """Where a command is used; it is always meant for us."""
        channel = interaction.channel
        parent = str(channel.parent_id) if isinstance(channel, discord.Thread) else None
        return Where(str(interaction.channel_id), parent, interaction.guild_id is None, True)

    async def parent(self, channel: int) -> str | None:
        """The channel that a thread belongs to, asked of Discord; None for what is no thread."""
        with failures():
            found = await self.fetch_channel(channel)
        return str(found.parent_id) if isinstance(found, discord.Thread) else None

    def text_of(self, message: discord.Message) -> str:
        """What a message says: names in the place of ids, and without our own mention at its begin."""
        me = self.user
        content = message.content
        if me is not None:
            for mention in (f"<@{me.id}>", f"<@!{me.id}>"):
                content = content.strip().removeprefix(mention).removesuffix(mention)
        for user in message.mentions:
            content = content.replace(f"<@{user.id}>", f"@{user.display_name}").replace(
                f"<@!{user.id}>", f"@{user.display_name}"
            )
        return content.strip()

    async def files_of(self, message: discord.Message, characters: int) -> list[File]:
        """The attachments of a message; images and text that are not too large are read."""
        files: list[File] = []
        for attached in message.attachments:
            file = File(attached.filename, attached.content_type, attached.size)
            if is_worth_reading(file, characters):
                try:
                    with failures():
                        file = file._replace(body=await attached.read())
                except (Away, DeliveryFailed):
                    file = file._replace(problem="it could not be read")
            files.append(file)
        return files

    async def send(self, channel: int, part: Part, nonce: str, reply_to: int | None) -> int:
        """Send a message; gives its id. The same nonce sends it once, for some minutes.

        Raises `DeliveryFailed` when it can never arrive, `Away` when that is not known.
        """
        room, more = self.get_partial_messageable(channel), dict[str, Any]()
        if reply_to is not None:
            more["reference"] = discord.MessageReference(
                message_id=reply_to, channel_id=channel, fail_if_not_exists=False
            )
        if part.buttons:
            more["view"] = _view(part)
        with failures():
            return (await room.send(part.text, nonce=nonce, files=_files(part), **more)).id

    async def edit(self, channel: int, message: int, part: Part) -> bool:
        """Replace a message of ours; False when it is there no more. Raises as `send`."""
        with failures():
            try:
                view = _view(part) if part.buttons else None
                await self._at(channel, message).edit(content=part.text, attachments=_files(part), view=view)
            except discord.NotFound:
                return False
        return True

    async def delete(self, channel: int, message: int) -> None:
        """Delete a message of ours; it may be gone already. Raises as `send`."""
        with failures():
            try:
                await self._at(channel, message).delete()
            except discord.NotFound:
                return

    async def show_typing(self, channel: int) -> None:
        """Say for ten seconds that an answer is being written. Raises as `send`."""
        with failures():
            await self.http.send_typing(channel)

    async def ours(self, channel: int, after: int) -> list[Said]:
        """What we sent behind this message, oldest first, as `said_after` gives it. Raises as `send`."""
        me, found = self.user, list[Said]()
        for message in await self.said_after(channel, after):
            if me is not None and message.author.id == me.id:
                reference = message.reference
                touched = (message.edited_at or message.created_at).timestamp()
                found.append(
                    Said(message.id, message.content, reference.message_id if reference is not None else None, touched)
                )
        return found

    def spoken_in(self, after: int) -> list[int]:
        """The channels and threads of all servers in which something was said behind this id."""
        rooms = [
            room for guild in self.guilds for room in (*guild.text_channels, *guild.voice_channels, *guild.threads)
        ]
        return [room.id for room in rooms if (room.last_message_id or 0) > after]

    async def said_after(self, channel: int, after: int) -> list[discord.Message]:
        """The next 2,000 messages behind this one, oldest first; none where we may not read. Raises as `send`."""
        with failures():
            try:
                room: Any = self.get_channel(channel) or await self.fetch_channel(channel)
                history = room.history(limit=_HISTORY, after=discord.Object(after), oldest_first=True)
                return [message async for message in history]
            except discord.Forbidden:
                return []

    def _at(self, channel: int, message: int) -> discord.PartialMessage:
        return self.get_partial_messageable(channel).get_partial_message(message)


def _kept(pace: Pace) -> aiohttp.TraceConfig:
    """Holds back each request as it goes out, behind what `discord.py` has waited for."""

    async def begin(_: object, request: SimpleNamespace, params: aiohttp.TraceRequestStartParams) -> None:
        path = params.url.path
        request.counts = False
        if path.startswith("/api/") and "/interactions/" not in path:
            await pace.go()
            request.counts = True

    async def end(_: object, request: SimpleNamespace, __: object) -> None:
        if request.counts:
            pace.answered()

    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(begin)
    trace.on_request_end.append(end)
    trace.on_request_exception.append(end)
    return trace


def _view(part: Part) -> discord.ui.View:
    view = discord.ui.View(timeout=None)
    for button in part.buttons:
        view.add_item(discord.ui.Button(label=button.label, custom_id=button.id))
    view.stop()  # we look at what is pressed ourselves, so that buttons of an earlier life work too
    return view


def _files(part: Part) -> list[discord.File]:
    return [discord.File(BytesIO(file.body), file.name) for file in part.files]
