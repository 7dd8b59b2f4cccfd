"""What a bot sends, and how it is answered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web


async def read(request: web.Request) -> tuple[dict[str, Any], list[tuple[str, bytes, str]]]:
    """The body of a request, and the files that came with it."""
    if request.content_type != "multipart/form-data":
        return await request.json(), []
    form = await request.post()
    files: list[tuple[str, bytes, str]] = []
    for name, value in form.items():
        if name.startswith("files[") and isinstance(value, web.FileField):
            files.append((value.filename, value.file.read(), value.content_type))
    return json.loads(str(form["payload_json"])), files


def answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """An answer. The header is what Discord sends: bots compare it to the letter."""
    given = {"Content-Type": "application/json", **(headers or {})}
    return web.Response(body=json.dumps(body).encode(), status=status, headers=given)


def refused(status: int, code: int, message: str) -> web.Response:
    """The answer to what is not carried out."""
    return answer({"message": message, "code": code}, status=status)
