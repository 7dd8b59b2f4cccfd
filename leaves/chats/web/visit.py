"""One page that is open: everything of its conversation goes to it, in order, and what it says is recorded."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from branches.attachment import take
from branches.chat import ChatAfferent, ChatEfferent
from branches.chat.entries import ChatActivity, ChatAnswer
from branches.chat.leaf import ChatPort, ForkRefused, Remembered
from journals import InvalidEntry
from leaves.chats.web.messages import (
    Active,
    Answer,
    Answered,
    Asked,
    Fork,
    Forked,
    Hello,
    Part,
    Piece,
    Refused,
    Said,
    Say,
    Told,
    Welcome,
)
from leaves.chats.web.uploads import TooMuch, Uploads

SESSIONS = "web-"
"""What the sessions of pages begin with."""
_PIECES = 500
_BAD_MESSAGE = 1008

_asked = msgspec.json.Decoder[Asked](Asked)
_encode = msgspec.json.Encoder().encode


class Visit:
    """A socket and its place in the conversation.

    What was said is read from the journal behind that place, whenever there may be more: nothing can be missed or come
    twice. Only pieces of texts that are being written are handed over, and dropped when the page is slow.
    """

    def __init__(
        self,
        socket: WebSocket,
        port: ChatPort,
        hello: Hello,
        *,
        title: str,
        sender: str,
        recorded: Callable[[str], None],
    ) -> None:
        """`recorded` is called with the session when the page has said something in it."""
        self._socket, self._port, self._title, self._sender = socket, port, title, sender
        self._recorded = recorded
        self.session = SESSIONS + hello.conversation
        self._place = hello.after
        self._news = asyncio.Event()
        self._news.set()
        self._more = True
        self._pieces: deque[Piece] = deque()
        self._replies: deque[Refused | Forked] = deque()
        self._uploads = Uploads()

    def __repr__(self) -> str:
        return f"<Visit {self.session} at {self._place}>"

    def tell(self) -> None:
        """Something was said here."""
        self._more = True
        self._news.set()

    def show(self, piece: Piece) -> None:
        """A piece of a text came. A page that gets no more of a stream waits for the text itself."""
        if len(self._pieces) >= _PIECES:
            self._pieces.clear()
        self._pieces.append(piece)
        self._news.set()

    async def run(self) -> None:
        """Until the page leaves. Raises what the port raises."""
        sending = asyncio.create_task(self._send())
        hearing = asyncio.create_task(self._hear())
        try:
            await asyncio.wait([sending, hearing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, hearing):
                task.cancel()
            await asyncio.wait([sending, hearing])
        for task in (sending, hearing):
            if not task.cancelled() and (error := task.exception()) is not None:
                if isinstance(error, WebSocketDisconnect | RuntimeError):
                    continue  # the page left while something was on its way to it
                raise error

    async def _send(self) -> None:
        await self._tell(Welcome(title=self._title))
        while True:
            await self._news.wait()
            self._news.clear()
            while self._replies:
                await self._tell(self._replies.popleft())
            while self._more or self._pieces:
                if self._more:
                    self._more = False
                    async for record in self._port.history(self.session, self._place):
                        await self._tell(told(record, self.session))
                        self._place = record.position
                if self._pieces:
                    await self._tell(self._pieces.popleft())

    async def _tell(self, message: Told) -> None:
        await self._socket.send_text(_encode(message).decode())

    async def _hear(self) -> None:
        while True:
            try:
                asked = _asked.decode(await self._socket.receive_text())
            except (msgspec.MsgspecError, KeyError, RecursionError):  # KeyError: bytes came
                await self._socket.close(_BAD_MESSAGE, "not a message of this page")
                return
            if isinstance(asked, Part):
                try:
                    self._uploads.take(asked)
                except TooMuch:
                    await self._socket.close(_BAD_MESSAGE, "more than a message may have")
                    return
                continue
            try:
                reason = await self._record(asked)
            except (InvalidEntry, ForkRefused) as error:
                reason = str(error)
            if reason is not None:
                self._replies.append(Refused(id=asked.id, reason=reason))
                self._news.set()
            elif isinstance(asked, Fork):
                self._replies.append(Forked(id=asked.id, into=asked.into))
                self._news.set()
            else:
                self._recorded(self.session)

    async def _record(self, asked: Say | Answer | Fork) -> str | None:
        """Record what the page sent; gives why it cannot be."""
        id = f"{self.session}/{asked.id}"
        if isinstance(asked, Say):
            return await self._say(asked, id)
        if isinstance(asked, Fork):
            into = SESSIONS + asked.into
            await self._port.fork(self.session, id, back=asked.back, into=into)
            if asked.text is not None and asked.text.strip():
                await self._port.receive(into, self._sender, asked.text, f"{into}/{asked.id}")
            return None
        question = await self._question(asked)
        if question is None:
            return "this conversation has no such question"
        if question.approvers and self._sender not in question.approvers:
            return f"only {', '.join(question.approvers)} may answer this"
        if question.choices and asked.text not in question.choices:
            return f"the answers are {', '.join(question.choices)}"
        await self._port.answer(self.session, asked.question, asked.text, self._sender, id)
        return None

    async def _say(self, asked: Say, id: str) -> str | None:
        files = self._uploads.collect(asked.files)
        if files is None:
            return "its files have not come whole: choose them again"
        taken = take(files)
        if not asked.text.strip() and not files:
            return "a message has a text"
        text = "\n\n".join((*([asked.text] if asked.text.strip() else []), *taken.told))
        await self._port.receive(self.session, self._sender, text, id, taken.images)
        return None

    async def _question(self, asked: Answer) -> ChatEfferent | None:
        async for record in self._port.history(self.session):
            here = record.session == self.session
            if here and isinstance(record.entry, ChatEfferent) and record.entry.question == asked.question:
                return record.entry
        return None


def told(record: Remembered, session: str) -> Said | Answered | Active:
    """What the page gets of a record. What was asked in the conversation that this one comes from is asked no more."""
    entry, here = record.entry, record.session == session
    if isinstance(entry, ChatActivity):
        return Active(
            position=record.position,
            activity=entry.activity,
            text=entry.text,
            tool_name=entry.tool_name,
            call=entry.correlation_id,
            stream=entry.stream,
        )
    if isinstance(entry, ChatAnswer):
        if not here:
            return Said(position=record.position, sender=entry.by, text=entry.answer)
        return Answered(position=record.position, question=entry.correlation_id, text=entry.answer)
    if isinstance(entry, ChatAfferent):
        mine = (entry.message_id or "").removeprefix(f"{session}/")
        return Said(position=record.position, sender=entry.sender, text=entry.text, mine=mine, files=entry.attachments)
    return Said(
        position=record.position,
        sender=entry.sender,
        text=entry.text,
        prompt=record.correlation_id,
        question=entry.question if here else None,
        choices=entry.choices if here else (),
        files=entry.attachments,
    )
