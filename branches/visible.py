"""Text by which people decide: nothing stands in it that is not seen, or that turns around what is."""

from __future__ import annotations

import json
import re

_BLANK = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""What counts as printable, and shows nothing: fillers, joiners and selectors of variants."""


def visible(text: str, most: int) -> str:
    """The text with all that is not seen escaped as in JSON; of more than `most` characters the beginning.

    Only what is shown is looked at, so that it costs the same however long the text is.
    """
    shown = _visible(text[:most])
    if len(text) <= most and len(shown) <= most:
        return shown
    return f"{shown[:most]}… ({len(text)} characters)"


def _visible(text: str) -> str:
    if text.isprintable() and not _BLANK.search(text):
        return text
    return "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    is_seen = character.isprintable() and not _BLANK.match(character)
    return character if is_seen else json.dumps(character)[1:-1]
