"""Asking a gate while code stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from branches.agents.medium import GateReply, Host


async def ask(host: Host, gate: str, arguments: Mapping[str, Any], seconds: float) -> GateReply | None:
    """What the gate replies; None where that takes longer, and the call has been cancelled then.

    The call is made in the caller's own task: whoever answers can tell that nothing else is asked meanwhile.
    """
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await host.call(gate, arguments)
    except TimeoutError:
        if not limit.expired():
            raise
        return None
