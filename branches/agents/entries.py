"""The entries of the Agents branch that routes may name. What only its own service writes is in `internal`."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from branches.agents.crystal import Finish, ToolCall, Usage
from branches.attachment import Attachment
from journals import Entry


class AgentPrompt(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """Something for the entity of this session to do: an intent. Its id has one content for ever (INTENT-3).

    What came with it is told in `text`. The images among the `attachments` are shown to a crystal that takes images.
    """

    sender: str
    text: str
    attachments: tuple[Attachment, ...] = ()


class AgentCancel(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """The asker no longer wants an answer: to the prompt of this record id, or without one to all that wait here."""

    prompt: str | None = None


class AgentFork(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """This session, in which nothing was asked yet, goes on from `parent`, another one, as that is now.

    The prompts whose correlation ids are in `without` never were: the path ends before the first of them, and with the
    last episode that is over.
    """

    parent: str
    without: tuple[str, ...] = ()


class AgentThought(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """Reasoning that the crystal let us see. `stream` is that of its chunks, where it came in pieces."""

    sender: str
    text: str
    stream: str | None = None


class LastTurn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The turn that ended an episode by its text alone; `model`, `opaque` and `finish` are those of the crystal's
    response.
    """

    turn: int
    usage: Usage
    duration_ms: float
    model: str | None = None
    opaque: str | None = None
    finish: Finish | None = None


class AgentResponse(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """The end of an episode, as its asker sees it.

    `ending` is `terminated`, `truncated`, `failed` or `cancelled`; `ward` is the ward that truncated it. `answer` is
    what `done` was given where that is no text, and unset where it is `text`. Where the text is what the crystal said
    in the last turn, `last` says the rest of that turn: nothing is recorded twice. One that was cut off is `answer`,
    and `text` says behind it that it was. `attachments` are the files that its gates gave to go with the answer.
    """

    sender: str
    text: str
    answer: Any = UNSET
    ending: str = "terminated"
    ward: str | None = None
    last: LastTurn | None = None
    attachments: tuple[Attachment, ...] = ()


class AgentChunk(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of an utterance that is still being written, or of a `thought` before it, for display only."""

    stream: str
    index: int
    text: str
    thought: bool = False


class AgentStreamCompleted(Entry, frozen=True, kw_only=True):
    """No more chunks of this stream will come."""

    stream: str


class Utterance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the crystal answered in a turn, and why that ends. Tool calls keep the provider's ids and text.

    Where the first call's text is what its `AgentToolCall` already has, as compact JSON, it is left empty here.
    """

    turn: int
    content: str | None
    tool_calls: tuple[ToolCall, ...]
    usage: Usage
    duration_ms: float
    model: str | None = None
    opaque: str | None = None
    finish: Finish | None = None


class AgentToolCall(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """The entity calls a gate that another branch serves.

    `scope` is the call inside which it is made, where that is not the episode itself: a child's, or that of code.
    Where it is the first thing that the crystal's answer asks for, `said` is that answer: both are written at once.
    """

    correlation_id: str
    tool_name: str
    arguments: dict[str, Any]
    scope: str | None = None
    said: Utterance | None = None


class ApprovalAsked(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """A person is asked: whether the gate call `call` may be made just so, or a question that the entity has.

    `approvers` are the names of those who may answer; none means whoever is in the conversation. `choices` are the
    answers there are; none means any text. `scope` is the call inside which it is asked, `sender` the instance whose
    entity asks.
    """

    correlation_id: str
    question: str
    gate: str
    arguments: dict[str, Any]
    call: str | None = None
    approvers: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    scope: str | None = None
    sender: str = ""


class ApprovalGiven(Entry, frozen=True, kw_only=True):
    """What the person `by` answered."""

    correlation_id: str
    answer: str
    by: str


class AgentToolResult(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """What the call gave. The `attachments` go with the answer of the episode that made it."""

    correlation_id: str
    result: Any
    attachments: tuple[Attachment, ...] = ()


class AgentToolFault(Entry, frozen=True, kw_only=True):
    """Why the call gave nothing. `code` is one word, e.g. `timeout`, `unknown_tool`, `in_doubt`."""

    correlation_id: str
    error: str
    code: str = "failed"
