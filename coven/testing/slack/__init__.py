"""A Slack on this machine, for tests: the interface that apps use and Socket Mode, over real connections."""

from coven.testing.slack.server import SlackServer
from coven.testing.slack.world import Channel, Message, Person, World

__all__ = ["Channel", "Message", "Person", "SlackServer", "World"]
