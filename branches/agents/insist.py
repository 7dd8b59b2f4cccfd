"""Insisting: `tool_choice: required` for a provider that cannot force its model to call a gate (CRYSTAL-5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from branches.agents.crystal import Crystal, CrystalError, CrystalRequest, CrystalResponse, Message, Usage, invoke, paid

_DEMAND: Final = "Answer with a tool call, not with text. Call one of these: {gates}."


class Insisting:
    """A crystal that asks the one within again until it calls a gate, where a call is required.

    What was said instead is shown to the crystal within and to nobody else: the entity sees one answer, with the tokens
    of all. What it says and thinks is told only once it is known to stand.
    """

    def __init__(self, crystal: Crystal, *, attempts: int = 3) -> None:
        self._crystal, self._attempts = crystal, attempts

    def __repr__(self) -> str:
        return f"<Insisting, {self._attempts} attempts, on {self._crystal!r}>"

    async def invoke(
        self,
        request: CrystalRequest,
        on_text: Callable[[str], None] | None = None,
        on_thought: Callable[[str], None] | None = None,
    ) -> CrystalResponse:
        """See `ThinkingCrystal.invoke`. Raises `CrystalError`, code `invalid_response`, if no attempt gave a call."""
        if request.tool_choice != "required" or not request.tools:
            return await invoke(self._crystal, request, on_text, on_thought)
        asked, usage = replace(request, tool_choice="auto"), Usage()
        demand = Message("user", _DEMAND.format(gates=", ".join(gate.name for gate in request.tools)))
        for _ in range(self._attempts):
            pieces, thoughts = list[str](), list[str]()
            with paid(usage):
                response = await invoke(self._crystal, asked, pieces.append, thoughts.append)
            usage += response.usage
            if response.tool_calls or not response.content:
                for tell, told in ((on_thought, thoughts), (on_text, pieces)):
                    if tell is not None:
                        for piece in told:
                            tell(piece)
                return replace(response, usage=usage)
            said = Message("assistant", response.content, model=response.model, opaque=response.opaque)
            asked = replace(asked, messages=(*asked.messages, said, demand))
        raise CrystalError(
            "invalid_response",
            f"crystal returned no tool call although tool_choice is 'required' and it was asked {self._attempts} times",
            usage=usage,
        )
