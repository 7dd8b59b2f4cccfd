"""A process of its own that runs an embedded server, to be killed: `python embedded.py <folder>`."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from journals import EmbeddedServer


async def main(folder: Path) -> None:
    async with EmbeddedServer(folder, durability="process") as server:
        print(json.dumps({"server": server.pid, "url": server.url, "token": server.token}), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
