"""Writes `docs/coven.schema.json` anew: `python docs/write_schema.py`, after a change of the model or of a leaf."""

from __future__ import annotations

import json
from pathlib import Path

from covenants.schema import json_schema
from leaves.catalogue import CATALOGUE

TARGET = Path(__file__).parent / "coven.schema.json"


def schema_text() -> str:
    """What the file must hold."""
    return json.dumps(json_schema(CATALOGUE), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    TARGET.write_text(schema_text(), encoding="utf-8")
