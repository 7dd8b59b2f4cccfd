"""The gate `echo`: it gives back what it is given."""

from __future__ import annotations

from branches.agents.gate import gate


def _echo(text: str) -> str:
    """Say the text again."""
    return text


echo = gate(_echo, name="echo", idempotent=True)
"""The gate itself: it needs nothing to be bound."""
