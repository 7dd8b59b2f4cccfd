"""In which line of its author an error was raised: not in one of what is installed, wherever that is."""

from __future__ import annotations

import site

import pytest

from branches.place import told


@pytest.mark.parametrize("folder", [site.getusersitepackages(), *site.getsitepackages()])
def test_what_is_installed_has_no_place(folder: str) -> None:
    installed: dict[str, object] = {}
    exec(compile("def fetch(): raise OSError('gone')", f"{folder}/client/__init__.py", "exec"), installed)
    own: dict[str, object] = {"fetch": installed["fetch"]}
    exec(compile("def cast():\n fetch()", "/home/ada/release.py", "exec"), own)
    with pytest.raises(OSError, match="gone") as caught:
        own["cast"]()  # type: ignore[operator]
    assert told(caught.value) == "OSError: gone (release.py, line 2)"
