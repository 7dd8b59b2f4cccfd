"""What `coven.yaml` says about a chat."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta


class ChatOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One chat instance: which leaf speaks for it, and that leaf's own options.

    branches:
      chat: {leaf: console, options: {sender: Ada}}
    """

    leaf: Annotated[str, Meta(description="the chat platform")] = "console"
    options: Annotated[dict[str, Any], Meta(description="the options of the leaf")] = {}
