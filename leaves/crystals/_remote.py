"""What the crystals of all providers have in common: permission, one client a loop, and what is not taken."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from branches.agents.crystal import CrystalError, CrystalRequest, CrystalResponse, Sampling
from branches.agents.insist import Insisting
from branches.agents.permission import require_permission
from leaves.crystals._hearing import Hearing
from leaves.crystals._images import Sight, has_images, shown
from leaves.crystals._wire import not_let_out, reaches

_BAD_REQUEST: Final = "bad_request"
_log = logging.getLogger("coven.crystals")


class RemoteCrystal(ABC):
    """A model behind an SDK. It keeps connections between two requests, and nothing of what was said.

    `model` is its name as `provider/model`; `context_limit` what it takes, in tokens, as far as that is known.
    """

    def __init__(
        self,
        provider: str,
        model: str,
        *,
        context_limit: int | None,
        untaken: frozenset[str],
        forces: bool,
        sight: Sight | None = None,
    ) -> None:
        """`untaken` names the fields of `Sampling` that it does not take, `forces` says that it can be made to call.

        `sight` says which images it takes.
        """
        self.provider, self.model, self.context_limit = provider, f"{provider}/{model}", context_limit
        self.untaken, self._forces = untaken, forces
        self.sight = sight or Sight()
        self._held: tuple[asyncio.AbstractEventLoop, Any] | None = None
        self._named: set[str] = set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model}>"

    async def invoke(
        self,
        request: CrystalRequest,
        on_text: Callable[[str], None] | None = None,
        on_thought: Callable[[str], None] | None = None,
    ) -> CrystalResponse:
        """See `ThinkingCrystal.invoke`. Raises `ModelRequestForbidden` where requests to real models are forbidden."""
        if request.tool_choice == "required" and request.tools and not self._forces:
            return await Insisting(self).invoke(request, on_text, on_thought)
        if reaches():
            require_permission(self.provider)
        self._name_untaken(request.sampling)
        hearing = Hearing(on_text, on_thought) if on_text or on_thought else None
        seen = replace(request, messages=shown(request.messages, self.sight))
        try:
            return await self._send(seen, hearing)
        except CrystalError as error:
            if error.code != _BAD_REQUEST or not has_images(seen.messages):
                raise
            # Or one picture that the provider cannot read would end every later episode of the conversation too.
            _log.warning("%s refused a request with images, and is asked without them: %s", self.model, error)
        return await self._send(replace(request, messages=shown(request.messages, self.sight, refused=True)), hearing)

    async def _send(self, request: CrystalRequest, hearing: Hearing | None) -> CrystalResponse:
        try:
            return await self._ask(self._client(), request, hearing)
        except CrystalError as error:
            kept_in = not_let_out(error)
            if kept_in is None:
                raise
            raise kept_in from None

    async def close(self) -> None:
        """Close its connections. A request after this opens new ones."""
        held, self._held = self._held, None
        if held is not None and held[0] is asyncio.get_running_loop():
            await self._disconnect(held[1])

    @abstractmethod
    def _connect(self) -> Any:
        """A client of the SDK, which does not retry: that is the loop's."""

    @abstractmethod
    async def _disconnect(self, client: Any) -> None:
        """Close that client."""

    @abstractmethod
    async def _ask(self, client: Any, request: CrystalRequest, hearing: Hearing | None) -> CrystalResponse:
        """Make one request; it streams where somebody hears it."""

    def _client(self) -> Any:
        loop = asyncio.get_running_loop()
        if self._held is None or self._held[0] is not loop:
            self._held = (loop, self._connect())
        return self._held[1]

    def _name_untaken(self, sampling: Sampling) -> None:
        """Say once of each option that it is not sent. In a configuration that names the model, it is refused."""
        for name in sorted(self.untaken - self._named):
            if getattr(sampling, name) != getattr(_DEFAULTS, name):
                self._named.add(name)
                _log.warning("%s does not take the sampling option `%s`: it is not sent", self.model, name)


_DEFAULTS = Sampling()
