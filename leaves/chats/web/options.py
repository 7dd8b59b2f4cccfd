"""What `coven.yaml` says about the chat in the browser. Reading this imports no server."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from branches.secret import Secret

TOKEN = "COVEN_WEB_TOKEN"


class WebOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the page is, and who may open a conversation on it.

    branches:
      chat: {leaf: web, options: {port: 8800, title: Hearth}}
    """

    host: Annotated[
        str, Meta(min_length=1, description="the address to listen at; another than this machine's own needs a token")
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="the port to listen at; 0 is any free one")] = 8800
    title: Annotated[str, Meta(min_length=1, max_length=100, description="what stands above the conversation")] = (
        "Coven"
    )
    sender: Annotated[str, Meta(description="the name under which people speak here")] = "you"
    token: Annotated[
        Secret | None, Meta(description="what a browser must know to talk; default: `${COVEN_WEB_TOKEN}`, if it is set")
    ] = None
