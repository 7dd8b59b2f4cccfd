"""Coven from Python: `cast` a cantrip on an intent, or `invoke` an entity that lasts.

    from coven import Call, Cantrip, Ward, cast, circle

    def add(a: int, b: int) -> int:
        \"\"\"Add two numbers.\"\"\"
        return a + b

    cantrip = Cantrip(crystal, Call(system_prompt="You add."), circle(["done", add], [Ward(max_turns=10)]))
    ended = await cast(cantrip, "What is 2 + 3?")

Names are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from branches.agents.call import Call
    from branches.agents.cantrip import Cantrip, InvalidCantrip
    from branches.agents.circle import Circle
    from branches.agents.crystal import Crystal, CrystalError, CrystalRequest, CrystalResponse, Sampling, Usage
    from branches.agents.folding import Folding
    from branches.agents.gate import Gate, GateFailed, GateUse, gate
    from branches.agents.retrying import Retrying
    from branches.agents.wards import Ward
    from coven.casting import Ended, Entity, InvalidCast, cast, invoke
    from coven.circles import circle

__all__ = [
    "Call",
    "Cantrip",
    "Circle",
    "Crystal",
    "CrystalError",
    "CrystalRequest",
    "CrystalResponse",
    "Ended",
    "Entity",
    "Folding",
    "Gate",
    "GateFailed",
    "GateUse",
    "InvalidCantrip",
    "InvalidCast",
    "Retrying",
    "Sampling",
    "Usage",
    "Ward",
    "cast",
    "circle",
    "gate",
    "invoke",
]

_HOMES = {
    "branches.agents.call": ("Call",),
    "branches.agents.cantrip": ("Cantrip", "InvalidCantrip"),
    "branches.agents.circle": ("Circle",),
    "branches.agents.crystal": (
        "Crystal",
        "CrystalError",
        "CrystalRequest",
        "CrystalResponse",
        "Sampling",
        "Usage",
    ),
    "branches.agents.folding": ("Folding",),
    "branches.agents.gate": ("Gate", "GateFailed", "GateUse", "gate"),
    "branches.agents.retrying": ("Retrying",),
    "branches.agents.wards": ("Ward",),
    "coven.circles": ("circle",),
    "coven.casting": ("Ended", "Entity", "InvalidCast", "cast", "invoke"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'coven' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
