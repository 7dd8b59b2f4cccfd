"""The gates that circles in Python can have: bound to what they reach when the circle is made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from branches.agents.gate import Gate, GateFailed, GateUse, pass_gate
from leaves.gates import echo, fetch, read, write

USE = GateUse(id="call", session="s")


async def call(gate: Gate, **arguments: Any) -> Any:
    return await pass_gate(gate, arguments, USE)


@asynccontextmanager
async def site(answer: Callable[[str], bytes]) -> AsyncGenerator[str]:
    """A web server on the loopback interface; `answer` gives the whole answer to a path."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(head.split(b" ")[1].decode()))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1")
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def ok(body: bytes, kind: str = "text/plain") -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (kind.encode(), len(body), body)


def to(where: str) -> bytes:
    return b"HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % where.encode()


async def refused(work: Awaitable[Any]) -> str:
    with pytest.raises(GateFailed) as failed:
        await work
    return failed.value.code


async def test_echo() -> None:
    assert await call(echo, text="hi") == "hi"


async def test_files_are_read_and_written_beneath_the_folder_alone(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "secret").write_text("no")
    await call(write(folder), path="a.txt", content="eggs")
    await call(write(folder), path="a.txt", content="milk")
    assert await call(read(folder), path="a.txt") == "milk"
    for path in ("../secret", str(tmp_path / "secret"), "missing.txt", "a\0b"):
        assert await refused(call(read(folder), path=path)) in ("denied", "failed", "bad_arguments")
    assert await refused(call(read(folder), path=3)) == "bad_arguments"
    assert list(read(folder).definition.parameters["properties"]) == ["path"]


async def test_a_page_is_fetched_as_text() -> None:
    async with site(lambda path: ok(f"you asked for {path}".encode())) as url:
        got = await call(fetch(private=True), url=f"{url}/a?b=c")
    assert (got["status"], got["text"]) == (200, "you asked for /a?b=c")


@pytest.mark.parametrize("charset", ["", "klingon", "hex", "idna", "undefined", "a\\0b", '""', "x" * 5_000])
async def test_a_charset_that_nobody_knows_is_taken_for_utf_8(charset: str) -> None:
    page = ok("Grüße \N{SNOWMAN}".encode() + b"\xff", f"text/plain; charset={charset}")
    async with site(lambda path: page) as url:
        got = await call(fetch(private=True), url=url)
    assert got["text"] == "Grüße \N{SNOWMAN}\N{REPLACEMENT CHARACTER}"


async def test_the_charset_that_is_named_counts() -> None:
    async with site(lambda path: ok("Grüße".encode("latin-1"), "text/html; charset=ISO-8859-1")) as url:
        assert (await call(fetch(private=True), url=url))["text"] == "Grüße"


async def test_nothing_is_fetched_from_the_network_that_we_stand_in() -> None:
    for url in (
        "http://127.0.0.1:1/",
        "http://localhost/",
        "http://[::1]/",
        "http://169.254.169.254/latest/meta-data",
        "http://10.0.0.1/",
        "http://0.0.0.0/",
        "http://[::ffff:127.0.0.1]/",
    ):
        assert await refused(call(fetch(), url=url)) == "denied", url


async def test_only_addresses_of_the_web_are_fetched() -> None:
    for url in ("file:///etc/passwd", "ftp://example.org/", "nonsense", "http://", "http://[bad/", "\ud800"):
        assert await refused(call(fetch(), url=url)) in ("bad_arguments", "failed"), url


async def test_every_hop_is_looked_at_before_it_is_followed() -> None:
    async with site(lambda path: to("http://elsewhere.example/")) as url:
        assert await refused(call(fetch(["127.0.0.1"], private=True), url=url)) == "denied"
    async with site(lambda path: ok(b"here") if path == "/there" else to("/there")) as url:
        assert (await call(fetch(private=True), url=url))["text"] == "here"
    async with site(lambda path: to("/again")) as url:
        assert await refused(call(fetch(private=True), url=url)) == "failed"


async def test_of_a_huge_page_the_beginning_is_given() -> None:
    async with site(lambda path: ok(b"x" * 10_000)) as url:
        got = await call(fetch(private=True, max_bytes=100), url=url)
    assert (len(got["text"]), got["cut"]) == (100, True)


async def test_a_page_that_never_comes_is_a_failure() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1") as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        assert await refused(call(fetch(private=True, timeout_s=0.05), url=url)) == "timeout"
    async with site(lambda path: b"nonsense\r\n\r\n") as url:
        assert await refused(call(fetch(private=True), url=url)) == "failed"
