"""What the page and the server say to each other: JSON, one struct a message."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from branches.attachment import FILES, Attachment

TEXT_LIMIT = 50_000
"""Characters of a message at most."""
FRAME_LIMIT = 4 * TEXT_LIMIT + 4_000
"""Bytes of a frame at most: a message in any script, with what stands around it."""
PART_LIMIT = 96 * 1024
"""Bytes of a piece of a file at most."""

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


class Part(msgspec.Struct, frozen=True, kw_only=True, tag="part", tag_field="type"):
    """The next piece of a file, in base64. The message that names the file comes behind its last piece."""

    file: _Id
    data: Annotated[bytes, Meta(max_length=PART_LIMIT)]


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a message, whose pieces have come before."""

    file: _Id
    name: Annotated[str, Meta(max_length=1_000)]
    media_type: Annotated[str, Meta(max_length=200)] = ""
    size: Annotated[int, Meta(ge=0)]


class Say(msgspec.Struct, frozen=True, kw_only=True, tag="say", tag_field="type"):
    """A message from the person, with its files. Sent again under its id, it is still one message."""

    id: _Id
    text: Annotated[str, Meta(max_length=TEXT_LIMIT)]
    files: Annotated[tuple[Chosen, ...], Meta(max_length=FILES)] = ()


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


Asked: TypeAlias = Say | Answer | Fork | Part


class Welcome(msgspec.Struct, frozen=True, kw_only=True, tag="welcome", tag_field="type"):
    """The conversation is open."""

    title: str


class Said(msgspec.Struct, frozen=True, kw_only=True, tag="said", tag_field="type", omit_defaults=True):
    """Something of the conversation, for ever: `position` is where the page goes on after a break.

    `mine` is the id that the page gave to what the person said; `prompt` tells which message a text answers, and so
    which stream it ends. `files` have their bytes in base64.
    """

    position: int
    sender: str
    text: str
    mine: str | None = None
    prompt: str | None = None
    question: str | None = None
    choices: tuple[str, ...] = ()
    files: tuple[Attachment, ...] = ()


class Answered(msgspec.Struct, frozen=True, kw_only=True, tag="answered", tag_field="type", omit_defaults=True):
    """A question has its answer."""

    position: int
    question: str
    text: str
    mine: str | None = None


class Active(msgspec.Struct, frozen=True, kw_only=True, tag="active", tag_field="type", omit_defaults=True):
    """What the agent does on the way to its answer; the fields are those of `ChatActivity`, `call` names the call.

    A thought replaces the pieces of its `stream`.
    """

    position: int
    activity: str
    text: str
    tool_name: str = ""
    call: str | None = None
    stream: str | None = None


class Piece(msgspec.Struct, frozen=True, kw_only=True, tag="piece", tag_field="type", omit_defaults=True):
    """A piece of a text that is being written, or of a thought, for display only."""

    stream: str
    index: int
    text: str
    prompt: str | None
    thought: bool = False


class Forked(msgspec.Struct, frozen=True, kw_only=True, tag="forked", tag_field="type"):
    """What was asked under this id is done: the conversation `into` is there."""

    id: str
    into: str


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused", tag_field="type"):
    """What the page sent under this id will never be recorded."""

    id: str
    reason: str


Told: TypeAlias = Welcome | Said | Answered | Active | Piece | Forked | Refused
