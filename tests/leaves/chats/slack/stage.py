"""A Slack, an app in it, and somebody at the other end of its journal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from branches.secret import Secret
from coven.testing.slack import Message, SlackServer
from journals import Journal
from leaves.chats.slack.leaf import Slack
from leaves.chats.slack.options import SlackOptions
from tests.leaves.chats.stage import ChatStage, journals


class Stage(ChatStage):
    """One store for as many lives of the app as a test wants."""

    def __init__(self, slack: SlackServer, journal: Journal, chunks: Journal) -> None:
        super().__init__(journal, chunks)
        self.slack = self.platform = slack
        self.world = slack.world

    def bot(
        self, *, leaf: type[Slack] = Slack, clock=None, forks: bool = True, **options
    ) -> AbstractAsyncContextManager[asyncio.Task[None]]:
        """One life of the app, from ready to a sudden end."""
        environ = {"BOT": self.slack.bot_token, "APP": self.slack.app_token}
        tokens = {"bot_token": Secret("${BOT}", environ), "app_token": Secret("${APP}", environ)}
        chosen = SlackOptions(**{**tokens, "api": self.slack.api, **options})
        return self.life(leaf(chosen, "chat", clock=clock), forks_routed=forks)

    async def acknowledged(self) -> None:
        """Nothing waits to be sent again."""
        await self.slack.until(lambda: not self.slack.unacknowledged)

    def asked(self, method: str) -> list[dict]:
        """What the app has asked of this method."""
        return [given for name, given in self.slack.requests if name == method]

    def said(self, channel=None, thread: Message | None = None) -> list[str]:
        """What the app says in a channel or a thread."""
        return [message.text for message in self.messages(channel, thread)]

    def messages(self, channel=None, thread: Message | None = None) -> list[Message]:
        return self.world.of_bot(channel or self.world.general, thread)


@asynccontextmanager
async def staged(**options) -> AsyncGenerator[Stage]:
    async with SlackServer(**options) as slack:
        yield Stage(slack, *await journals())
        assert slack.mistakes == []
