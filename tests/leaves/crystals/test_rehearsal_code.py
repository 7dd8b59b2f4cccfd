"""The rehearsal crystal where only code can be run: the same phrases, the same gate calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from coven import Call, Cantrip, Ward, cast, circle
from leaves.crystals.rehearsal import RehearsalCrystal
from leaves.spells.fs import Filesystem, FsOptions


@pytest.mark.parametrize("medium", ["tools", "javascript", "python"])
async def test_it_answers_alike_on_every_medium(medium: str, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("it's milk")
    gates = ["done", "fs.read_text", "fs.list_dir", "fs.write_text"]
    made = Cantrip(RehearsalCrystal(), Call(), circle(gates, [Ward(max_turns=5)], medium))
    substrates = {"fs": Filesystem(FsOptions(root=str(tmp_path)))}

    async def ask(intent: str) -> str:
        return (await cast(made, intent, substrates=substrates)).text

    assert "it's milk" in await ask("read notes.md")
    assert "notes.md" in await ask("what files are here?")
    gone = "there is no such file or folder (or a link to it leads nowhere)"
    assert await ask("read gone.md") == f"I could not read gone.md: {gone}"
    left = "`..` or a link leads out of the workspace"
    assert await ask("read ../secret") == f"I could not read ../secret: {left} (denied)"
    assert "overwrite notes.md with" in await ask("write 'eggs' to notes.md")
    await ask("write 'a \"b\"' to list.txt")
    assert (tmp_path / "list.txt").read_text() == 'a "b"'
