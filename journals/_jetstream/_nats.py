"""Imports `nats-py` without `aiohttp`, which takes longer than all the rest of it and serves its WebSockets alone.

`nats-py` imports it wherever it is installed. Here it is imported with the first WebSocket.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from threading import get_ident
from typing import Any, Final

_LATER: Final = ("aiohttp", "multidict")


class _Hidden(MetaPathFinder):
    """Whoever imports these modules in this thread is told that they are not installed."""

    def __init__(self) -> None:
        self._thread = get_ident()

    def __repr__(self) -> str:
        return f"<_Hidden {', '.join(_LATER)}>"

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname in _LATER and get_ident() == self._thread:
            raise ModuleNotFoundError(f"{fullname} is imported when it is needed", name=fullname)


class _Later:
    """Stands for a module that is imported when something of it is wanted."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"<_Later {self._name}>"

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


def import_nats() -> None:
    """Import `nats-py`; where somebody has imported it before, or `aiohttp`, there is nothing to spare."""
    if "nats" in sys.modules or any(name in sys.modules or find_spec(name) is None for name in _LATER):
        return
    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        transport: Any = import_module("nats.aio.transport")
    finally:
        sys.meta_path.remove(hidden)
    for name in _LATER:
        setattr(transport, name, _Later(name))


import_nats()
