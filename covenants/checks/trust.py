"""What a gate may bring into a circle: private data, content that strangers wrote, a way out."""

from __future__ import annotations

from typing import Final

PRIVATE: Final = "private"
UNTRUSTED: Final = "untrusted"
OUTWARD: Final = "outward"
BRINGS: Final = (PRIVATE, UNTRUSTED, OUTWARD)
