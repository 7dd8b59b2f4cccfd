"""The entries of the Chat branch."""

from __future__ import annotations

from typing import Literal

from branches.attachment import Attachment
from branches.settled import Mark
from journals import Entry


class ChatAfferent(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """A message that came in from a person. What came with it is told in `text`; of images the bytes are kept."""

    sender: str
    text: str
    message_id: str | None = None
    """The platform's own id of the message, where it has one."""
    attachments: tuple[Attachment, ...] = ()


class ChatEfferentDraft(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """A message that somebody wants to send, with files where there are any; Chat commits it."""

    text: str
    sender: str = ""
    attachments: tuple[Attachment, ...] = ()


class ChatChunk(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of a message that is still being written, or of a `thought` on the way to it, for display only."""

    stream: str
    index: int
    text: str
    thought: bool = False


class ChatStreamCompleted(Entry, frozen=True, kw_only=True):
    """No more chunks of this stream will come."""

    stream: str


class ChatActivity(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """What an agent does on the way to its answer, for people who want to look; nothing is sent because of it.

    `text` is the thought, the arguments of the call as JSON, what the call gave, or why it gave nothing; a long one is
    cut. A call and its outcome have the same `correlation_id`, and may arrive in either order. `stream` is that of the
    chunks of a thought, where it came in pieces.
    """

    activity: Literal["thought", "call", "result", "fault"]
    text: str
    tool_name: str = ""
    correlation_id: str | None = None
    stream: str | None = None


class ChatQuestion(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """A question to a person; Chat commits it as a message and brings home what is answered.

    `choices` are the answers there are, none means any text; `approvers` are those who may answer, none means anybody.
    `sender` is who asks, where that is known.
    """

    correlation_id: str
    question: str
    choices: tuple[str, ...] = ()
    approvers: tuple[str, ...] = ()
    sender: str = ""


class ChatAnswer(Entry, frozen=True, kw_only=True):
    """What a person, `by` name, answered to a question."""

    correlation_id: str
    answer: str
    by: str


class ChatEfferent(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """A message that Chat has committed: it is to be sent, once.

    One that asks names its `question`, the `choices` that a leaf may show as buttons, and the `approvers`, who alone
    may answer where there are any.
    """

    text: str
    sender: str = ""
    question: str | None = None
    choices: tuple[str, ...] = ()
    approvers: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()


class ChatDelivered(Entry, frozen=True, kw_only=True):
    """A committed message reached the platform; `receipt` is the platform's id for it, where it gives one."""

    efferent: str
    receipt: str | None = None


class ChatUndelivered(Entry, frozen=True, kw_only=True):
    """A committed message that can never reach the platform, and why. It is not tried again."""

    efferent: str
    error: str


class ChatBegunAnew(Entry, frozen=True, kw_only=True):
    """From here on what is said in this conversation belongs to another session, which knows nothing of this one."""

    session: str


class ChatForked(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """This session goes on from `parent`, another one, as that is now but for the messages `without`, by their ids."""

    parent: str
    without: tuple[str, ...] = ()


class ChatSettled(Mark, frozen=True, kw_only=True):
    """Every draft up to this position of the journal is settled, so that a start need not look there again."""
