"""Two leaves of one's own: a substrate that rolls dice, and a crystal that is no model but knows the game.

`coven.yaml` names them by `use: leaves.py:Name`. Nothing else is needed: the spell's schema, its check, its journal
entries, its faults and what happens to it in a crash come from the struct below.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from branches.agents.crystal import CrystalRequest, CrystalResponse, ToolCall
from branches.spellcasting import Casting, Spell, SpellFailed


class Roll(Spell, frozen=True, kw_only=True):
    """Roll some dice and give what they show."""

    full_name: ClassVar[str] = "dice.roll"
    count: Annotated[int, Meta(description="how many dice")] = 1


class DiceOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `spellcasting: {dice: …}` may say."""

    sides: int = 6


class Dice:
    """The substrate. `Options` and `spells` are what the check reads."""

    Options = DiceOptions
    spells = (Roll,)

    def __init__(self, options: DiceOptions) -> None:
        self._sides = options.sides

    async def cast(self, spell: Spell, casting: Casting) -> Any:
        """Roll. The call id is the seed, so the same call shows the same dice."""
        assert isinstance(spell, Roll)
        if not 1 <= spell.count <= 100:
            raise SpellFailed("bad_arguments", "1 to 100 dice fit on the table")
        rolls = random.Random(casting.id)
        return {"dice": [rolls.randint(1, self._sides) for _ in range(spell.count)]}

    async def close(self) -> None:
        """Nothing to release."""


class Croupier:
    """A crystal: messages in, text or tool calls out. It keeps no state of its own between requests."""

    def __init__(self, options: None) -> None:
        pass

    async def invoke(self, request: CrystalRequest, on_text: Callable[[str], None] | None = None) -> CrystalResponse:
        """Roll as many dice as the message has words, then say what they show."""
        last = request.messages[-1]
        if last.role == "tool":
            return CrystalResponse(content=f"The dice show {last.content}")
        words = len((last.content or "").split())
        return CrystalResponse(tool_calls=(ToolCall("roll", "dice.roll", f'{{"count":{words}}}'),))
