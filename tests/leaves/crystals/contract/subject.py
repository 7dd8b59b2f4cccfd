"""Whom the contract asks: a provider's crystal before the loopback server, or before the real service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from branches.agents.crystal import (
    CrystalError,
    CrystalRequest,
    CrystalResponse,
    Message,
    Sampling,
    ToolCall,
    is_cut,
    validate,
)
from branches.agents.gates import GateDefinition
from coven.testing.providers import ProviderServer
from leaves.crystals._remote import RemoteCrystal
from tests.leaves.crystals.providers import Provider
from tests.leaves.crystals.till import Till

MOST = 2000
"""Tokens that an answer of the contract has at most, thoughts included."""
BRIEF = Message("system", "Do exactly what you are asked to, in as few words as possible.")
READ = GateDefinition(
    name="fs.read_text",
    description="Read a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
WRITE = GateDefinition(
    name="fs.write_text",
    description="Write a file.",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
        "required": ["path", "text"],
    },
)
SAYS = {"a.txt": "walnut", "b.txt": "heron"}
Told = Callable[[str], None]
Outcome = CrystalResponse | CrystalError


class Subject:
    """A crystal to ask, with `make` for others of its provider. `server` is None where it is the real service's."""

    def __init__(
        self, provider: Provider, make: Callable[..., RemoteCrystal], server: ProviderServer | None, till: Till
    ) -> None:
        self.provider, self.make, self.server, self._till = provider, make, server, till
        self.crystal = make()
        self.refuses = False
        """Whether a test wants its requests refused; of no other one the loopback server may refuse any."""

    def __repr__(self) -> str:
        return f"<Subject {self.crystal!r} {'live' if self.live else 'on the loopback server'}>"

    @property
    def live(self) -> bool:
        """Whether it is the real service that is asked."""
        return self.server is None

    async def ask(
        self,
        *messages: Message,
        streamed: bool,
        tools: tuple[GateDefinition, ...] = (),
        tool_choice: Any = "auto",
        sampling: Sampling | None = None,
        crystal: RemoteCrystal | None = None,
    ) -> CrystalResponse:
        """Ask, and check what holds of every answer."""
        request = CrystalRequest(messages, tools, tool_choice, sampling or Sampling(max_tokens=MOST))
        pieces, thoughts = list[str](), list[str]()
        hearing: tuple[Told, ...] = (pieces.append, thoughts.append) if streamed else ()
        asked = crystal or self.crystal
        response = validate(await self.invoke(asked, request, *hearing), request)
        assert response.model == asked.model
        assert response.usage.prompt > 0
        assert response.usage.completion > 0
        assert response.finish is not None
        if not is_cut(response.finish):
            assert response.finish == ("tool_calls" if response.tool_calls else "stop")
        assert 0 <= response.usage.cached <= response.usage.prompt
        if streamed:
            assert "".join(pieces) == (response.content or "")
            assert "".join(thoughts) == (response.thinking or "")
        return response

    async def outcome(self, *messages: Message, streamed: bool, **more: Any) -> Outcome:
        """An answer, or the error that came in its place, where either may be right."""
        try:
            return await self.ask(*messages, streamed=streamed, **more)
        except CrystalError as error:
            return error

    async def invoke(self, crystal: RemoteCrystal, request: CrystalRequest, *hearing: Told) -> CrystalResponse:
        """Ask for what there is money for."""
        request = replace(request, sampling=replace(request.sampling, max_tokens=request.sampling.max_tokens or MOST))
        reserved = self._till.reserve(request)
        response = await crystal.invoke(request, *hearing)
        self._till.settle(reserved, response.usage)
        return response


def user(text: str) -> Message:
    return Message("user", text)


def then(messages: tuple[Message, ...], response: CrystalResponse, failure: str | None = None) -> tuple[Message, ...]:
    """The conversation after an answer, as the loop shows it: with what the files say, or with the failure."""
    said = Message("assistant", response.content, response.tool_calls, model=response.model, opaque=response.opaque)
    results = (
        Message("tool", failure or _says(call), tool_call_id=call.id, is_error=failure is not None)
        for call in response.tool_calls
    )
    return (*messages, said, *results)


def _says(call: ToolCall) -> str:
    return next((says for name, says in SAYS.items() if name in call.arguments), "nothing")
