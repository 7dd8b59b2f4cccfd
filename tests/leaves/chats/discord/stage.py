"""A Discord, a bot on it, and somebody at the other end of its journal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from branches.secret import Secret
from coven.testing.discord import DiscordServer, Message
from journals import Journal
from leaves.chats.discord.leaf import Discord
from leaves.chats.discord.options import DiscordOptions
from tests.leaves.chats.stage import ChatStage, journals


class Stage(ChatStage):
    """One store for as many lives of the bot as a test wants."""

    def __init__(self, discord: DiscordServer, journal: Journal, chunks: Journal) -> None:
        super().__init__(journal, chunks)
        self.discord = self.platform = discord
        self.world = discord.world

    def bot(
        self, *, leaf: type[Discord] = Discord, clock=None, timeout: float = 60, **options
    ) -> AbstractAsyncContextManager[asyncio.Task[None]]:
        """One life of the bot, from ready to a sudden end, of so many seconds at most."""
        token = Secret("${TOKEN}", {"TOKEN": self.discord.token})
        chosen = DiscordOptions(**{"token": token, "api": self.discord.api, "commands": False, **options})
        return self.life(leaf(chosen, "chat", clock=clock), timeout)

    def said(self, channel=None) -> list[str]:
        """What the bot says in a channel."""
        return [message.text for message in self.messages(channel)]

    def messages(self, channel=None) -> list[Message]:
        return self.world.of_bot(channel or self.world.general)


@asynccontextmanager
async def staged(**options) -> AsyncGenerator[Stage]:
    async with DiscordServer(**options) as discord:
        yield Stage(discord, *await journals())
