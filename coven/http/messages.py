"""What goes in and out, as JSON: the OpenAPI document is made of these."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from branches.agents.loom import Turn
from branches.attachment import FILES

Intent = Annotated[str, Meta(min_length=1, description="what the entity is to do")]


class Upload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file that comes with an intent. Of text the entity is told what it says; images it is shown, if it can see."""

    name: Annotated[str, Meta(max_length=1000, description="what the file is called")]
    media_type: Annotated[Annotated[str, Meta(max_length=200)] | None, Meta(description="what it says that it is")] = (
        None
    )
    body: Annotated[bytes, Meta(description="its bytes, in base64")]


Uploads = Annotated[tuple[Upload, ...], Meta(max_length=FILES, description="files that come with the intent")]


class CastRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One episode. Without a session it has one of its own."""

    intent: Intent
    session: Annotated[str | None, Meta(description="the conversation to go on in")] = None
    attachments: Uploads = ()


class PromptRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An intent for a lasting entity. Several wait for each other."""

    intent: Intent
    wait: Annotated[bool, Meta(description="answer when the episode has ended, or as soon as it is recorded")] = True
    attachments: Uploads = ()


class CancelRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose answer nobody wants any more: that of one prompt, or of all that wait here."""

    prompt: Annotated[str | None, Meta(description="the id of the prompt")] = None


class ForkRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where another session goes on from."""

    turn: Annotated[str | int, Meta(description="the id of a turn, or its number from 0; -1 is the last one")]
    session: Annotated[str | None, Meta(description="what the new session is called")] = None


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt is recorded. Events behind its position tell what becomes of it."""

    session: str
    prompt: str
    position: int


class Cancelled(msgspec.Struct, frozen=True, kw_only=True):
    """The wish is recorded; the episode ends as `cancelled`, unless it ends before that."""

    session: str
    prompt: str | None


class Forked(msgspec.Struct, frozen=True, kw_only=True):
    """A new session that goes on from a turn of another one."""

    session: str
    forked_from: str


class ThreadTold(msgspec.Struct, frozen=True, kw_only=True):
    """The thread of a session: the turns from its root to its newest, those before a fork among them."""

    session: str
    ending: Annotated[str, Meta(description="as that of an episode, or `active` while it goes on")]
    turns: tuple[Turn, ...]


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The server answers."""

    ok: bool
    coven: str
    agents: str


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request could not be met. `error` is one word for programs, `message` says what to do."""

    error: str
    message: str
