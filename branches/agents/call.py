"""The call: the immutable conditioning of an entity."""

from __future__ import annotations

import msgspec

from branches.agents.crystal import ToolChoice


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """What shapes how the crystal behaves before any intent arrives. The gates come from the circle."""

    system_prompt: str | None = None
    require_done_tool: bool = False
    tool_choice: ToolChoice = "auto"
