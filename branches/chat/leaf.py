"""What a chat leaf is: the translator between one platform and the Chat branch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from branches.attachment import Attachment
from branches.chat.entries import ChatActivity, ChatAfferent, ChatAnswer, ChatChunk, ChatEfferent, ChatStreamCompleted
from branches.chat.taken import Taken
from branches.chat.windows import Window
from journals import Record

Remembered: TypeAlias = Record[ChatAfferent] | Record[ChatEfferent] | Record[ChatAnswer] | Record[ChatActivity]
"""What a conversation's history holds."""


class DeliveryFailed(Exception):
    """Raised by a leaf for a message that can never arrive (the channel is gone, the person blocks us).

    It is recorded as `ChatUndelivered` and not tried again. Anything else that `deliver` raises fails the service:
    supervision restarts it, and it delivers again.
    """


class ForkRefused(Exception):
    """Raised by `ChatPort.fork` for what cannot be done; its text tells the person why."""


class ChatPort(Protocol):
    """What a leaf hands messages to."""

    async def receive(
        self,
        conversation: str,
        sender: str,
        text: str,
        message_id: str | None = None,
        attachments: Sequence[Attachment] = (),
    ) -> Record[ChatAfferent] | Record[ChatAnswer]:
        """Record a message from outside; it is durable when this returns.

        What came with it is told in `text`, and of images the bytes are `attachments`: `branches.attachment.take`
        gives both.

        Its session is the conversation, or the one that `begin_anew` has begun there. `message_id` is the platform's:
        the same one gives the record of the first time, whatever the text says now, and also if it was an answer then.
        Raises `InvalidName` and `InvalidEntry` for what cannot be stored, and what `Journal.append` raises.
        """
        ...

    async def answer(
        self, session: str, question: str, text: str, by: str, message_id: str | None = None
    ) -> Record[ChatAfferent] | Record[ChatAnswer]:
        """Record what a person answered to the question of this id, asked in this session; durable when this returns.

        A leaf that has buttons calls it when one is pressed, any other when a message is meant as the answer. The
        same `message_id` gives the record of the first time, also if it was a message then. Raises what `receive`
        raises.
        """
        ...

    def history(self, conversation: str, after: int = 0) -> AsyncIterator[Remembered]:
        """What was said and done in a conversation behind this position until now, for a leaf that shows it again.

        In order. A leaf that shows no activities passes over them.
        """
        ...

    async def begin_anew(self, conversation: str, message_id: str) -> str:
        """What is said there from now on belongs to a new session, which this gives; durable when this returns.

        Asked again under the same id it changes nothing. `branches.chat.sessions.conversation_of` is the way back.
        Raises what `receive` raises.
        """
        ...

    async def taken_since(self, time: float) -> Taken:
        """What was recorded since then, in seconds since the epoch, in any session of any conversation."""
        ...

    async def fork(self, conversation: str, message_id: str, *, back: int = 0, into: str | None = None) -> str:
        """What is said there from now on goes on from this conversation as it was `back` messages of people ago.

        It is a session of its own, which this gives, and the one until now stays as it is. `into` names a conversation
        that has not begun: then that one goes on from here, and this one stays where it is. Asked again under the
        same id it changes nothing. Raises `ForkRefused`, and what `receive` raises.
        """
        ...

    async def unanswered(self, session: str) -> set[str]:
        """The ids of the messages from outside in this session for which nothing has come yet that is to be sent.

        A question is no answer. Takes time with the length of the session.
        """
        ...

    async def prompt_of(self, message: Record[ChatEfferent]) -> Record[ChatAfferent] | None:
        """The message from outside that this one answers, to reply to; None when it answers none that is known."""
        ...


class ChatLeaf(Protocol):
    """One platform."""

    async def run(self, port: ChatPort, ready: Callable[[], None]) -> None:
        """Read the outside and hand every message to the port; call `ready()` once messages can be delivered.

        To return means that the outside is finished (end of input, `/quit`): the service then delivers what is
        committed and asks the host to stop.
        """
        ...

    async def deliver(self, message: Record[ChatEfferent]) -> str | None:
        """Send a committed message to the conversation `message.session`; gives the platform's id for it.

        One with a `question` asks: what is answered comes back by `ChatPort.answer`.

        `message.id` is the same at every attempt, for platforms that take a nonce. Calls for one conversation come
        one after the other, in order. Raises `DeliveryFailed` when it can never arrive.
        """
        ...


@runtime_checkable
class StreamingLeaf(Protocol):
    """A leaf that also shows messages while they are being written."""

    async def show(self, chunk: Record[ChatChunk | ChatStreamCompleted]) -> None:
        """Show a piece, or that no more will come. Pieces inform; the message itself still arrives by `deliver`."""
        ...


@runtime_checkable
class ThinkingLeaf(StreamingLeaf, Protocol):
    """A streaming leaf that also shows thoughts while they come. No other is told anything of them."""

    async def show_thought(self, chunk: Record[ChatChunk | ChatStreamCompleted]) -> None:
        """Show a piece of a thought, or that no more will come; it comes through the window, as text does.

        The whole thought is a `ChatActivity` of the same `stream`, which replaces its pieces.
        """
        ...


@runtime_checkable
class ActiveLeaf(Protocol):
    """A leaf that also shows what an agent does on the way to its answer."""

    async def show_activity(self, activity: Record[ChatActivity]) -> None:
        """Show a thought, a call, or what came of one. It informs: what happens while no leaf runs is not shown again.

        Calls come in one order with those of `deliver` for the same conversation.
        """
        ...


@runtime_checkable
class WindowedLeaf(StreamingLeaf, Protocol):
    """A streaming leaf that is shown text through a window; without one, each piece as it comes."""

    @property
    def window(self) -> Window:
        """When text goes through to `show`."""
        ...


@runtime_checkable
class RemindingLeaf(Protocol):
    """A leaf that keeps nothing of a question once it has stopped."""

    async def remind(self, message: Record[ChatEfferent]) -> None:
        """A question that was delivered by an earlier start, and has no answer yet."""
        ...
