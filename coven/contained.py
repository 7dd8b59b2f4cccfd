"""A crystal whose bugs end the episode that met them, and not the service of every conversation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from branches.agents.crystal import Crystal, CrystalError, CrystalRequest, CrystalResponse, invoke, thinks_aloud
from branches.agents.permission import ModelRequestForbidden
from branches.place import kind_of, told

_log = logging.getLogger("coven.crystals")


def contain(crystal: Crystal, name: str) -> Crystal:
    """The same crystal; what it raises and is no `CrystalError` becomes one with the code `broken`, and is logged.

    A coven that failed with its crystal would fail again at each start, for the prompt would still be open: one
    message would stop all conversations. From Python a bug is raised as it is.
    """
    return (_ContainedThinking if thinks_aloud(crystal) else _Contained)(crystal, name)


class _Contained:
    def __init__(self, crystal: Crystal, name: str) -> None:
        self._crystal, self._name = crystal, name

    def __repr__(self) -> str:
        return repr(self._crystal)

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._crystal, attribute)

    async def invoke(self, request: CrystalRequest, on_text: Callable[[str], None] | None = None) -> CrystalResponse:
        """See `Crystal.invoke`."""
        return await self._ask(request, on_text, None)

    async def _ask(
        self,
        request: CrystalRequest,
        on_text: Callable[[str], None] | None,
        on_thought: Callable[[str], None] | None,
    ) -> CrystalResponse:
        try:
            return await invoke(self._crystal, request, on_text, on_thought)
        except (CrystalError, ModelRequestForbidden, asyncio.CancelledError):
            raise  # where no model may be asked, whoever forbade it wants to hear of it, and not to read an answer
        except (Exception, SystemExit) as error:  # the boundary to leaves: the episode fails, and says why
            _log.error("the crystal %s raised %s", self._name, told(error))
            _log.debug("its failure in full", exc_info=error)
            raise CrystalError("broken", f"the crystal {self._name} raised {kind_of(error)}") from error


class _ContainedThinking(_Contained):
    async def invoke(
        self,
        request: CrystalRequest,
        on_text: Callable[[str], None] | None = None,
        on_thought: Callable[[str], None] | None = None,
    ) -> CrystalResponse:
        """See `ThinkingCrystal.invoke`."""
        return await self._ask(request, on_text, on_thought)
