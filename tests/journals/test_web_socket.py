"""A server that is reached through WebSockets, as behind a proxy that lets nothing else in."""

from __future__ import annotations

import asyncio
from pathlib import Path

from journals import JetStreamStore
from journals._server._ports import choose_port
from tests.journals.kinds import Said, registry
from tests.journals.servers import external

MANY = 500


async def test_a_journal_is_written_tailed_and_read(tmp_path: Path, coven_name: str) -> None:
    web = choose_port()
    config = f'jetstream {{ store_dir: "js" }}\nwebsocket {{ listen: "127.0.0.1:{web}", no_tls: true }}'
    address = f"ws://127.0.0.1:{web}"
    async with (
        asyncio.timeout(60),
        external(tmp_path, config),
        await JetStreamStore.connect(address, coven_name) as writing,
        await JetStreamStore.connect(address, coven_name) as reading,
    ):
        journal = await writing.open("chat", registry())
        tail = (await reading.open("chat", registry())).tail(0)
        await journal.append(Said(text="first"), session="s", id="one")
        assert (await anext(tail)).entry == Said(text="first")
        await asyncio.gather(*(journal.append(Said(text="x" * 1000, number=n), session="s") for n in range(MANY)))
        assert {(await anext(tail)).entry.number for _ in range(MANY)} == set(range(MANY))
        await journal.append(Said(text="é" * 2_000_000), session="s")
        assert len((await anext(tail)).entry.text) == 2_000_000
        assert not (await journal.append(Said(text="first"), session="s", id="one")).created
        await tail.aclose()
