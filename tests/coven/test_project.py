"""A new project."""

from __future__ import annotations

from pathlib import Path

import pytest

from coven.configuration import configure, services_of
from coven.project import FolderNotEmpty, create


def test_what_init_writes_passes_the_check_and_has_a_workspace(tmp_path):
    written = create(tmp_path / "new")
    configured = configure(tmp_path / "new" / "coven.yaml", {})
    assert services_of(configured.config) == ("spellcasting", "agents", "covenant", "chat")
    assert configured.warnings == ()
    assert {path.name for path in written} == {"coven.yaml", "notes.md", ".gitignore"}
    assert (tmp_path / "new" / "workspace" / "notes.md").read_text().startswith("# Notes")


def test_nothing_is_overwritten_unless_it_must_be(tmp_path):
    (tmp_path / "coven.yaml").write_text("mine")
    with pytest.raises(FolderNotEmpty, match="say --force"):
        create(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["coven.yaml"]
    create(tmp_path, force=True)
    assert (tmp_path / "coven.yaml").read_text() != "mine"


def test_a_gitignore_stays_as_it_is(tmp_path):
    (tmp_path / ".gitignore").write_text("mine")
    create(tmp_path)
    create(tmp_path, force=True)
    assert (tmp_path / ".gitignore").read_text() == "mine"


def test_the_journals_are_kept_out_of_git(tmp_path):
    create(tmp_path)
    assert ".coven/" in (tmp_path / ".gitignore").read_text().splitlines()


def test_it_is_the_configuration_that_comes_with_the_source(tmp_path):
    create(tmp_path)
    shipped = (Path(__file__).parents[2] / "coven.yaml").read_text().splitlines()
    assert shipped[0].startswith("# yaml-language-server:")
    assert (tmp_path / "coven.yaml").read_text().splitlines() == shipped[1:]
