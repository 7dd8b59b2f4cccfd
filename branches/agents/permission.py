"""The switch that forbids requests to real models, for tests and for whoever wants to be sure."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Final

VARIABLE: Final = "COVEN_FORBID_MODEL_REQUESTS"
_forbidden: list[object] = []


class ModelRequestForbidden(RuntimeError):
    """A real model was about to be asked although that is forbidden."""

    def __init__(self, provider: str) -> None:
        super().__init__(
            f"a request to {provider} was about to be made although model requests are forbidden (by {VARIABLE} or "
            "forbid_model_requests()): use a crystal that needs no provider, for example coven.testing.ScriptedCrystal"
        )
        self.provider = provider


class Forbidding:
    """Model requests are forbidden from its making on, until `allow` or the end of its `with` block."""

    def __init__(self) -> None:
        _forbidden.append(self)

    def __repr__(self) -> str:
        return f"<Forbidding {'holds' if self in _forbidden else 'is over'}>"

    def allow(self) -> None:
        """Take this one back; others, and the environment, still hold. Twice does no harm."""
        if self in _forbidden:
            _forbidden.remove(self)

    def __enter__(self) -> Forbidding:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.allow()


def permitted() -> bool:
    """Whether real models may be asked."""
    return not _forbidden and os.environ.get(VARIABLE, "0") in ("", "0")


def require_permission(provider: str) -> None:
    """What a crystal of a real provider calls before each request. Raises `ModelRequestForbidden`."""
    if not permitted():
        raise ModelRequestForbidden(provider)
