"""The spell of the `shell` substrate: one program in the workspace."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from branches.spellcasting.spell import Spell


class Exec(Spell, frozen=True, kw_only=True):
    """Run one program in the workspace and give its exit code and what it printed.

    There is no shell: no pipes, redirections, `;`, `&&`, variables or wildcards, and only the programs that are
    allowed here. Paths are relative to the workspace. A program that runs longer than `timeout_s` is ended.
    """

    full_name = "shell.exec"
    max_seconds = None  # it has a limit of its own

    cmd: Annotated[str, Meta(description="the program and its arguments, quoted as in a shell, e.g. ls -l 'my notes'")]
    timeout_s: Annotated[int, Meta(ge=1, le=3600, description="end the program after this many seconds")] = 20
