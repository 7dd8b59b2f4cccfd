"""One thing that was looked at, and what was seen."""

from __future__ import annotations

from typing import Literal

import msgspec

Level = Literal["ok", "warning", "problem"]


class Finding(msgspec.Struct, frozen=True):
    """`problem`: Coven does not work, or does not keep its promises. `warning`: read it and decide."""

    level: Level
    topic: str
    message: str
    cure: str = ""


def ok(topic: str, message: str) -> Finding:
    """It is as it should be."""
    return Finding("ok", topic, message)


def warning(topic: str, message: str, cure: str) -> Finding:
    """It works, and somebody should know."""
    return Finding("warning", topic, message, cure)


def problem(topic: str, message: str, cure: str) -> Finding:
    """It has to be mended."""
    return Finding("problem", topic, message, cure)
