"""What `coven.yaml` says about a chat."""

from __future__ import annotations

from typing import Any

import msgspec


class ChatOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One chat instance: which leaf speaks for it, and that leaf's own options.

    branches:
      chat: {leaf: console, options: {sender: Ada}}
    """

    leaf: str = "console"
    options: dict[str, Any] = {}
