"""Reading a stream in order through a pull consumer of our own: no gaps, no repeats, at the reader's pace.

Each reading has its own inbox and asks for more only when little is under way. Positions are checked; after a gap,
a lost connection, a vanished consumer or silence, a new consumer goes on behind the last position that was given out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Any

import msgspec
import nats.errors

from journals._errors import StoreUnavailable
from journals._ids import random_id
from journals._jetstream._client import Delivery, parse_headers
from journals._jetstream._pace import PAUSE_S, Pace
from journals._jetstream._streams import Stream
from journals._log import Stored

_MAX_BYTES = 1024 * 1024  # the server cuts a connection off where 64 MB wait, all readings together
_SECOND = 1_000_000_000
_EXPIRES_S = 60
_HEARTBEAT_S = 5
_INACTIVE_S = 30
_LOOK_AGAIN_S = 1.0


class Reading:
    """An endless ordered reading of a stream, as an async context manager.

    What the reader says that it `wrote` is counted when it comes, and not given out where the reader knows it already.
    """

    def __init__(self, stream: Stream, after: int) -> None:
        self._stream, self._connection = stream, stream.connection
        self._pace = Pace(after)
        self._pause: asyncio.TimerHandle | None = None
        self._buffer: list[Delivery] = []
        self._waiter: asyncio.Future[None] | None = None
        self._watchdog: asyncio.TimerHandle | None = None
        self._heard = False
        self._consumer = ""
        self._next_in_consumer = 1
        self._broken = True
        self._inbox = ""
        self._subscription: Any = None

    def __repr__(self) -> str:
        return f"<Reading {self._stream.name}, {self._pace!r}{' broken' if self._broken else ''}>"

    @property
    def position(self) -> int:
        """That of the last message that came."""
        return self._pace.position

    @property
    def pending(self) -> int:
        """How many messages the server had behind it."""
        return self._pace.pending

    async def __aenter__(self) -> Reading:
        self._connection.on_lost.append(self._lost)
        self._watch()
        try:
            await self._begin()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.on_lost.remove(self._lost)
        if self._watchdog is not None:
            self._watchdog.cancel()
        self._end_pause()
        await self._end()

    def wrote(self, first: int, last: int, *, known: bool) -> None:
        """The messages at these positions are the reader's own; where it knows all up to there, they are not given out.

        Where it does not, somebody else has written before, and that is looked for at once.
        """
        self._pace.wrote(first, last, known=known)
        if not known and last > self.position and self._pause is not None:
            self._look()

    async def next_group(self, timeout: float | None = None) -> list[Stored]:
        """What has arrived, at least one message, in order; none when nothing has within `timeout` seconds.

        Raises `StoreUnavailable`, and `StoreMismatch` when another stream has taken the place of this one.
        """
        loop = asyncio.get_running_loop()
        alarm = None if timeout is None else loop.call_later(timeout, self._wake)
        deadline = None if timeout is None else loop.time() + timeout
        try:
            while True:
                if self._broken:
                    await self._end()
                    await self._stream.state()
                    await self._begin()
                group = self._take() if self._buffer else []
                self._ask_for_more()  # also when all that came was known, or a request has expired
                if group:
                    return group
                if self._broken or self._buffer:
                    continue
                if deadline is not None and loop.time() >= deadline:
                    return []
                self._waiter = loop.create_future()
                await self._waiter
        finally:
            if alarm is not None:
                alarm.cancel()

    def _take(self) -> list[Stored]:
        messages, self._buffer = self._buffer, []
        group: list[Stored] = []
        cut = len(self._stream.prefix)
        for message in messages:
            reply, raw = message.reply, message.headers
            if not reply:  # from the server itself; a message of the stream has the consumer's numbers there
                self._status(parse_headers(raw))
                continue
            fields = reply.split(".")
            shift = 0 if len(fields) == 9 else 2
            position, number = int(fields[5 + shift]), int(fields[6 + shift])
            if number != self._next_in_consumer:
                self._broken = True
                return group
            self._next_in_consumer += 1
            if self._pace.came(position, int(fields[8 + shift])):
                headers = parse_headers(raw) if raw else {}
                group.append(
                    Stored(position, message.subject[cut:], headers, message.body, int(fields[7 + shift]) / _SECOND)
                )
        return group

    def _status(self, headers: dict[str, str]) -> None:
        if headers.get("Status") == "100":
            # A heartbeat names the last message sent to us: a different one here is a gap that nothing else shows.
            last = headers.get("Nats-Last-Consumer")
            if last is not None and int(last) != self._next_in_consumer - 1:
                self._broken = True
            return
        if "Nats-Pending-Messages" in headers:  # a request has ended: expired, or its bytes were used up
            self._pace.ended(int(headers["Nats-Pending-Messages"]))
            return
        self._broken = True

    async def _begin(self) -> None:
        await self._connection.ready()
        client = self._connection.client
        self._inbox = client.new_inbox()
        self._end_pause()
        self._buffer, self._next_in_consumer = [], 1
        self._consumer = f"r{random_id()[:12]}"
        config = {
            "name": self._consumer,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self.position + 1,
            "ack_policy": "none",
            "replay_policy": "instant",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": _INACTIVE_S * _SECOND,
        }
        name = self._stream.name
        self._broken = False
        try:
            self._subscription = await client.listen(self._inbox, self._receive)
            request = {"stream_name": name, "config": config}
            reply = await self._connection.api(f"CONSUMER.CREATE.{name}.{self._consumer}", request)
        except (nats.errors.Error, OSError):
            self._broken = True
            return
        except BaseException:
            self._broken = True
            raise
        if "error" in reply:
            self._broken = True
            raise StoreUnavailable(f"stream {name!r} cannot be read: {reply['error'].get('description')}")
        self._pace.begin(reply["num_pending"])
        self._ask_for_more()

    def _ask_for_more(self) -> None:
        if self._broken or self._pause is not None or not (batch := self._pace.wanted()):
            return
        request = {
            "batch": batch,
            "max_bytes": self._connection.at_least_one(_MAX_BYTES),
            "expires": _EXPIRES_S * _SECOND,
            "idle_heartbeat": _HEARTBEAT_S * _SECOND,
        }
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream.name}.{self._consumer}"
        try:
            self._connection.client.publish_checked(((subject, {}, msgspec.json.encode(request)),), self._inbox)
        except (nats.errors.Error, OSError):
            self._broken = True

    def _look(self) -> None:
        """The pause is over."""
        self._end_pause()
        self._ask_for_more()
        if self._broken:
            self._wake()

    def _end_pause(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    async def _end(self) -> None:
        client = self._connection.client
        if self._subscription is None or client.is_closed:
            return
        subscription, self._subscription = self._subscription, None
        try:
            await client.forget(subscription)
            await client.publish(f"$JS.API.CONSUMER.DELETE.{self._stream.name}.{self._consumer}", reply=self._inbox)
        except (nats.errors.Error, OSError):
            pass  # the consumer goes by itself after half a minute of inactivity

    def _receive(self, delivery: Delivery) -> None:
        self._heard = True
        self._buffer.append(delivery)
        if self._known_only(delivery.reply):
            self._take()  # nothing for the reader in it, so it is not woken
            if self._pause is None and self._pace.under_way == 0 and self._pace.is_alone:
                self._pause = asyncio.get_running_loop().call_later(PAUSE_S, self._look)
            self._ask_for_more()
            if not self._broken:
                return
        self._wake()

    def _known_only(self, reply: str) -> bool:
        """Whether all that waits is one message whose content the reader knows already."""
        if len(self._buffer) > 1 or not reply:
            return False
        fields = reply.split(".")
        return self._pace.knows(int(fields[5 if len(fields) == 9 else 7]))

    def _lost(self) -> None:
        self._broken = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _watch(self) -> None:
        """Look now and then whether anything was heard; without even a heartbeat the reading begins anew."""
        loop = asyncio.get_running_loop()
        if self._watchdog is not None and not self._heard and self._waiter is not None and not self._waiter.done():
            self._lost()
        self._heard = False
        self._watchdog = loop.call_later(2 * _HEARTBEAT_S, self._watch)


async def read_all(stream: Stream, after: int, upto: int) -> AsyncGenerator[list[Stored]]:
    """Everything between `after`, exclusive, and `upto`, inclusive; `upto` must have been reached already.

    On a cluster the reading may lag behind the leader, and is waited for.
    """
    if after >= upto:
        return
    async with Reading(stream, after) as reading:
        group: list[Stored] | None = None
        while reading.position < upto:
            if (reading.pending == 0 or group == []) and (await stream.state())["first_seq"] > upto:
                return  # a short-lived journal has forgotten the rest
            group = await reading.next_group(_LOOK_AGAIN_S)
            wanted = group if reading.position <= upto else [stored for stored in group if stored.position <= upto]
            if wanted:
                yield wanted
