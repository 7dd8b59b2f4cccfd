"""What a program that opens a journal waits for at its start, and what it does not."""

from __future__ import annotations

import subprocess
import sys

IMPORT = """
import sys
import journals
journals.JetStreamStore
assert "nats" in sys.modules
print("aiohttp" in sys.modules)
"""
WEB_SOCKET = """
import asyncio, sys
import journals
journals.JetStreamStore
from nats.aio.transport import WebSocketTransport

async def main():
    transport = WebSocketTransport({"X-A": ["b"]})
    print("aiohttp" in sys.modules, transport._get_custom_headers().getall("X-A"))
    await transport.wait_closed()

asyncio.run(main())
"""


def output_of(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_the_library_of_web_sockets_is_not_imported_for_servers_that_need_none():
    assert output_of(IMPORT) == "False"


def test_it_is_imported_with_the_first_web_socket():
    assert output_of(WEB_SOCKET) == "True ['b']"


def test_others_import_it_as_ever():
    assert output_of("import aiohttp\n" + IMPORT) == "True"
    assert output_of("import journals, aiohttp; journals.JetStreamStore; print(aiohttp.ClientSession.__name__)") == (
        "ClientSession"
    )
