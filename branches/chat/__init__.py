"""The Chat branch: what people say, what is said to them, and its delivery."""

from branches.chat.entries import (
    ChatAfferent,
    ChatChunk,
    ChatDelivered,
    ChatEfferent,
    ChatEfferentDraft,
    ChatSettled,
    ChatStreamCompleted,
    ChatUndelivered,
)
from branches.chat.manifest import CHAT

__all__ = [
    "CHAT",
    "ChatAfferent",
    "ChatChunk",
    "ChatDelivered",
    "ChatEfferent",
    "ChatEfferentDraft",
    "ChatSettled",
    "ChatStreamCompleted",
    "ChatUndelivered",
]
