"""Gate names on the wire: providers take letters, digits, `_` and `-`, and gates have dots."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import count
from typing import Final

_UNSAFE = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST: Final = 64


class Names:
    """The names of the gates that are offered, there and back. No two of them have one name on the wire."""

    def __init__(self, gates: Iterable[str]) -> None:
        self._there: dict[str, str] = {}
        self._back: dict[str, str] = {}
        for gate in sorted(gates, key=lambda name: (_safe(name) != name, name)):
            self._add(gate)

    def there(self, gate: str) -> str:
        """How a gate is called on the wire; one that is not offered, too."""
        return self._there.get(gate) or _safe(gate)

    def back(self, name: str) -> str:
        """The gate that a model means; a name that was not offered stays as it is, for the circle to refuse."""
        return self._back.get(name, name)

    def _add(self, gate: str) -> None:
        wanted = _safe(gate)
        numbered = (f"{wanted[: _LONGEST - 4]}_{number}" for number in count(2))
        name = wanted if wanted not in self._back else next(each for each in numbered if each not in self._back)
        self._there[gate], self._back[name] = name, gate


def _safe(gate: str) -> str:
    return _UNSAFE.sub("_", gate)[:_LONGEST] or "gate"
