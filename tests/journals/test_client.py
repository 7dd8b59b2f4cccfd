"""The client's own parser: whatever the pieces in which bytes arrive, every message is handed over once, in order."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from journals._jetstream._client import Delivery, FastClient, encode_publish, parse_headers

SUBSCRIBED, OTHER = 1, 2

messages = st.lists(
    st.tuples(
        st.sampled_from([SUBSCRIBED, SUBSCRIBED, SUBSCRIBED, OTHER]),
        st.sampled_from(["", "_INBOX.x.7", "$JS.ACK.s.c.1.2.3.4.5"]),
        st.dictionaries(st.sampled_from(["Coven-Kind", "Coven-Id"]), st.sampled_from(["a", "b c", "MSG x 1 3"])),
        st.sampled_from([b"", b"x", b"\r\n", b"MSG a 1 3\r\nabc\r\n", b"PING\r\n", b"x" * 300, b"\xff\x00"]),
    ),
    max_size=12,
)


def wire(sid: int, reply: str, headers: dict[str, str], body: bytes) -> bytes:
    """A message as a server sends it."""
    middle = f"{sid} {reply} " if reply else f"{sid} "
    if not headers:
        return f"MSG s.t {middle}{len(body)}\r\n".encode() + body + b"\r\n"
    block = "NATS/1.0\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n"
    raw = block.encode()
    return f"HMSG s.t {middle}{len(raw)} {len(raw) + len(body)}\r\n".encode() + raw + body + b"\r\n"


class Watched(FastClient):
    """Keeps what came, in order, whichever way it took."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, str, bytes]] = []
        self.pings = 0
        self._receivers[SUBSCRIBED] = self._note

    def _note(self, delivery: Delivery) -> None:
        headers = parse_headers(delivery.headers) if delivery.headers else {}
        self.seen.append((SUBSCRIBED, f"{delivery.reply}{headers}", delivery.body))

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        if sid == OTHER:
            self.seen.append((OTHER, "", data))
            return
        await super()._process_msg(sid, subject, reply, data, headers)

    async def _process_ping(self) -> None:
        self.pings += 1


@given(messages, st.data())
async def test_any_pieces_give_the_same_messages(sent: list[Any], data: st.DataObject) -> None:
    stream = b""
    for number, message in enumerate(sent):
        stream += wire(*message)
        if number % 3 == 2:
            stream += b"PING\r\n"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    client = Watched()
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        await client._ps.parse(stream[start:end])
    expected = [(sid, f"{reply}{headers}" if sid == SUBSCRIBED else "", body) for sid, reply, headers, body in sent]
    assert client.seen == expected
    assert client.pings == len(sent) // 3


def test_a_frame_is_what_the_protocol_wants() -> None:
    assert encode_publish("a.b", "r", {"K": "v"}, b"xy") == b"HPUB a.b r 18 20\r\nNATS/1.0\r\nK: v\r\n\r\nxy\r\n"


def test_headers_of_every_shape_are_read() -> None:
    assert parse_headers(b"NATS/1.0\r\nA: b\r\nC:d\r\n\r\n") == {"A": "b", "C": "d"}
    assert parse_headers(b"NATS/1.0 404 No Messages\r\n\r\n") == {"Status": "404"}
    assert parse_headers(b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 7\r\n\r\n") == {
        "Status": "100",
        "Nats-Last-Consumer": "7",
    }
