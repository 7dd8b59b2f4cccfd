"""The Chat branch: what people say, what is said to them, and its delivery."""

from branches.chat.entries import (
    ChatAfferent,
    ChatChunk,
    ChatDelivered,
    ChatEfferent,
    ChatEfferentDraft,
    ChatStreamCompleted,
)
from branches.chat.manifest import CHAT

__all__ = [
    "CHAT",
    "ChatAfferent",
    "ChatChunk",
    "ChatDelivered",
    "ChatEfferent",
    "ChatEfferentDraft",
    "ChatStreamCompleted",
]
