"""What the page and the server say to each other: JSON, one struct a message."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

TEXT_LIMIT = 50_000
"""Characters of a message at most."""
FRAME_LIMIT = 4 * TEXT_LIMIT + 4_000
"""Bytes of a frame at most: a message in any script, with what stands around it."""

_Id = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{8,64}\Z")]
_Conversation = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{20,64}\Z")]
_Text = Annotated[str, Meta(min_length=1, max_length=TEXT_LIMIT)]


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello", tag_field="type"):
    """The first message: which conversation, what of it is known, and the token where one is asked for.

    Whoever knows the name of a conversation may read it, so the page makes it of 128 random bits.
    """

    conversation: _Conversation
    after: Annotated[int, Meta(ge=0)] = 0
    token: Annotated[str, Meta(max_length=1000)] = ""


class Say(msgspec.Struct, frozen=True, kw_only=True, tag="say", tag_field="type"):
    """A message from the person. Sent again under its id, it is still one message."""

    id: _Id
    text: _Text


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag="answer", tag_field="type"):
    """An answer to the question of this id."""

    id: _Id
    question: Annotated[str, Meta(min_length=1, max_length=200)]
    text: _Text


class Fork(msgspec.Struct, frozen=True, kw_only=True, tag="fork", tag_field="type"):
    """The conversation `into`, a new one, goes on from here as it was `back` messages ago, and begins with `text`."""

    id: _Id
    into: _Conversation
    back: Annotated[int, Meta(ge=0, le=10_000)] = 0
    text: _Text | None = None


Asked: TypeAlias = Say | Answer | Fork


class Welcome(msgspec.Struct, frozen=True, kw_only=True, tag="welcome", tag_field="type"):
    """The conversation is open."""

    title: str


class Said(msgspec.Struct, frozen=True, kw_only=True, tag="said", tag_field="type", omit_defaults=True):
    """Something of the conversation, for ever: `position` is where the page goes on after a break.

    `mine` is the id that the page gave to what the person said; `prompt` tells which message a text answers, and so
    which stream it ends.
    """

    position: int
    sender: str
    text: str
    mine: str | None = None
    prompt: str | None = None
    question: str | None = None
    choices: tuple[str, ...] = ()


class Answered(msgspec.Struct, frozen=True, kw_only=True, tag="answered", tag_field="type", omit_defaults=True):
    """A question has its answer."""

    position: int
    question: str
    text: str
    mine: str | None = None


class Active(msgspec.Struct, frozen=True, kw_only=True, tag="active", tag_field="type", omit_defaults=True):
    """What the agent does on the way to its answer; the fields are those of `ChatActivity`, `call` names the call."""

    position: int
    activity: str
    text: str
    tool_name: str = ""
    call: str | None = None


class Piece(msgspec.Struct, frozen=True, kw_only=True, tag="piece", tag_field="type"):
    """A piece of a text that is being written, for display only."""

    stream: str
    index: int
    text: str
    prompt: str | None


class Forked(msgspec.Struct, frozen=True, kw_only=True, tag="forked", tag_field="type"):
    """What was asked under this id is done: the conversation `into` is there."""

    id: str
    into: str


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused", tag_field="type"):
    """What the page sent under this id will never be recorded."""

    id: str
    reason: str


Told: TypeAlias = Welcome | Said | Answered | Active | Piece | Forked | Refused
