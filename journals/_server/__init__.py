"""The embedded server: a real `nats-server` as a child process, and how other processes find it."""

from journals._server._address import Durability, ServerAddress, find_server
from journals._server._child import ServerFailure
from journals._server._folder import FolderTaken
from journals._server._server import EmbeddedServer

__all__ = ["Durability", "EmbeddedServer", "FolderTaken", "ServerAddress", "ServerFailure", "find_server"]
