"""A Discord on this machine, for tests: a gateway and the interface that bots use, over real connections."""

from coven.testing.discord.server import DiscordServer
from coven.testing.discord.world import Channel, Kind, Message, Person, World

__all__ = ["Channel", "DiscordServer", "Kind", "Message", "Person", "World"]
