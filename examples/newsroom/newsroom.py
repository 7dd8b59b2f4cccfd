"""A writer and an editor: two crystals that are no models, so that this runs without a key and always alike.

With models in their place (`crystal: anthropic`, `crystal: openai`) the covenant stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from branches.agents.crystal import CrystalRequest, CrystalResponse

FILLERS = ("very", "really", "rather", "just", "the", "a", "an")


class Writer:
    """Writes down what it is told, without what the editor has struck."""

    def __init__(self, options: None) -> None:
        pass

    async def invoke(self, request: CrystalRequest, on_text: Callable[[str], None] | None = None) -> CrystalResponse:
        """The text that the editor speaks of, without the word that is struck; or a new text."""
        told = request.messages[-1].content or ""
        struck = re.fullmatch(r"Strike '(\w+)' from: (.*)", told, re.DOTALL)
        if struck is None:
            return CrystalResponse(content=told)
        words = struck[2].split()
        words.remove(struck[1])
        return CrystalResponse(content=" ".join(words))


class Editor:
    """Strikes one word at a time."""

    def __init__(self, options: None) -> None:
        pass

    async def invoke(self, request: CrystalRequest, on_text: Callable[[str], None] | None = None) -> CrystalResponse:
        """What to strike; or the headline, when there is nothing more to strike."""
        text = request.messages[-1].content or ""
        for word in text.split():
            if word in FILLERS:
                return CrystalResponse(content=f"Strike '{word}' from: {text}")
        return CrystalResponse(content=text.upper())
