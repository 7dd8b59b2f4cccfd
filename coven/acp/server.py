"""`coven acp`: a coven as an agent on standard input and output, until the client closes them."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from acp import run_agent

from coven.acp.agent import ORIGIN, CovenAgent
from coven.acp.lines import standard_streams
from coven.entrance import entrance
from coven.recipe import Recipe
from coven.running import loop_factory
from coven.signals import StopSignals
from coven.terminal import tell


def serve(recipe: Recipe) -> None:
    """Serve one client until it leaves or this is stopped. Raises what `entrance` and `standard_streams` raise."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(recipe))


async def _serve(recipe: Recipe) -> None:
    task = asyncio.current_task()
    assert task is not None
    with StopSignals(task) as signals:
        try:
            lines = await standard_streams()
            async with entrance(recipe, origin=ORIGIN, tell=tell, watch=True) as opened:
                talking = asyncio.ensure_future(run_agent(cast("Any", CovenAgent(opened)), lines))
                try:
                    await asyncio.wait([talking, opened.serving], return_when=asyncio.FIRST_COMPLETED)
                    if opened.serving.done():
                        opened.serving.result()
                    await talking
                finally:
                    talking.cancel()
                    await asyncio.wait([talking])
        except asyncio.CancelledError:
            if not signals.asked:
                raise
