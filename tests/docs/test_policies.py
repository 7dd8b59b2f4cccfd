"""The page of the policies: it names every entry."""

from __future__ import annotations

from policies import RUN_KINDS
from tests.docs.examples import ROOT, blocks

PAGE = "policies.md"
BLOCKS = blocks(PAGE)


def test_every_entry_is_told() -> None:
    rows = [line.split("|")[1] for line in (ROOT / "docs" / PAGE).read_text().splitlines() if line.startswith("| `")]
    told = {name.strip("` ") for row in rows for name in row.split(",")}
    assert told == {kind.kind() for kind in RUN_KINDS}
