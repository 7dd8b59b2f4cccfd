"""Files that an app uploads: it asks for an address, sends the bytes, and says that they are whole."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from coven.testing.slack.requests import Refused


@dataclass
class Upload:
    """A file that the app uploads; it is there when it is `complete`."""

    name: str
    size: int
    body: bytes = b""
    complete: bool = False


class Uploads(dict[str, Upload]):
    """The files that the app has uploaded, by id; a message that links to one shows it."""

    base = ""
    """The address of the server."""

    async def begin(self, given: dict[str, Any]) -> dict[str, Any]:
        """An address for a file of a name and a length."""
        id = f"F{len(self) + 1:08}"
        self[id] = Upload(str(given["filename"]), int(given["length"]))
        return {"file_id": id, "upload_url": f"{self.base}/upload/{id}"}

    async def take(self, request: web.Request) -> web.StreamResponse:
        """The bytes of a file come."""
        upload, body = self[request.match_info["file"]], await request.read()
        if len(body) != upload.size:
            return web.Response(status=400, text="not the length that was said")
        upload.body = body
        return web.Response(text=f"OK - {len(body)}")

    async def complete(self, given: dict[str, Any]) -> dict[str, Any]:
        """The files are whole. Raises `Refused`."""
        files: list[dict[str, str]] = json.loads(str(given["files"]))
        for file in files:
            if file["id"] not in self:
                raise Refused("file_not_found")
            self[file["id"]].complete = True
        return {"files": files}

    async def about(self, given: dict[str, Any]) -> dict[str, Any]:
        """Where a file can be seen. Raises `Refused`."""
        id = str(given.get("file"))
        if id not in self or not self[id].complete:
            raise Refused("file_not_found")
        return {"file": {"id": id, "name": self[id].name, "permalink": f"{self.base}/shared/{id}"}}

    def linked(self, text: str) -> list[tuple[str, bytes, str]]:
        """The files that a message shows because it links to them."""
        linked = (upload for id, upload in self.items() if f"{self.base}/shared/{id}|" in text)
        return [(upload.name, upload.body, "application/octet-stream") for upload in linked]
