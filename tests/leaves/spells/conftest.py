"""A workspace with something outside of it that must never be seen."""

from __future__ import annotations

from pathlib import Path

import pytest

SECRET = "secret-canary-of-the-outside"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text(SECRET)
    (tmp_path / "secret").write_text(SECRET)
    return folder


@pytest.fixture
def workspace(tmp_path: Path, outside: Path) -> Path:
    folder = tmp_path.resolve() / "workspace"
    folder.mkdir()
    return folder
