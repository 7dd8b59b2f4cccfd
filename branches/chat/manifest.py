"""The kinds of the Chat branch."""

from __future__ import annotations

from branches.chat.entries import (
    ChatActivity,
    ChatAfferent,
    ChatAnswer,
    ChatBegunAnew,
    ChatChunk,
    ChatDelivered,
    ChatEfferent,
    ChatEfferentDraft,
    ChatForked,
    ChatQuestion,
    ChatSettled,
    ChatStreamCompleted,
    ChatUndelivered,
)
from branches.manifest import Direction, Kind, Manifest

CHAT = Manifest(
    branch="chat",
    kinds=(
        Kind(ChatAfferent, Direction.PRODUCES),
        Kind(ChatEfferentDraft, Direction.REQUIRES, draft=True),
        Kind(ChatQuestion, Direction.ACCEPTS, answers=(ChatAnswer,)),
        Kind(ChatAnswer, Direction.PRODUCES, occasional=True),
        Kind(ChatForked, Direction.PRODUCES, occasional=True),
        Kind(ChatChunk, Direction.ACCEPTS, draft=True, short_lived=True),
        Kind(ChatStreamCompleted, Direction.ACCEPTS, short_lived=True),
        Kind(ChatActivity, Direction.ACCEPTS),
        Kind(ChatEfferent, Direction.INTERNAL),
        Kind(ChatDelivered, Direction.INTERNAL),
        Kind(ChatUndelivered, Direction.INTERNAL),
        Kind(ChatBegunAnew, Direction.INTERNAL),
        Kind(ChatSettled, Direction.INTERNAL),
    ),
)
