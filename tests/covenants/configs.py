"""Configurations to test with: one that is right, and how to make others of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from branches.catalogue import Catalogue, LeafInfo, LeafKind
from branches.secret import Secret
from branches.spellcasting import Spell
from branches.spellcasting.spells import Exec, ListDir, ReadText, WriteText
from covenants import Checked, Config, Problem, check, load_text

RIGHT = """\
coven: hearth
branches:
  chat:
    leaf: console
  agents:
    crystal: rehearsal
    circle:
      gates: [done, fs.read_text, fs.write_text]
      wards: [{max_turns: 40}]
  spellcasting:
    fs: {root: ./workspace}
covenant:
  - ChatAfferent -> AgentPrompt
  - AgentResponse -> ChatEfferentDraft
  - route: AgentToolCall -> SpellInvocation
    fault: AgentToolFault
  - SpellResult -> AgentToolResult
  - SpellFault -> AgentToolFault
  - AgentChunk -> ChatChunk
  - AgentStreamCompleted -> ChatStreamCompleted
  - AgentThought -> nowhere
"""
MARK = "▮"


class Fetch(Spell, frozen=True, kw_only=True):
    """Fetch a page."""

    full_name = "http.fetch"
    url: str


class ConsoleOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    sender: str = "you"


class DiscordOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    token: Secret | None = None
    guilds: tuple[int, ...] = ()


class ModelOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    api_key: Secret | None = None
    model: str = "best"
    max_tokens: int = 4096


class FsOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    root: str = "."


class ShellOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    allow: tuple[str, ...]
    network: bool = False


def leaf(name: str, kind: LeafKind, **more: Any) -> LeafInfo:
    return LeafInfo(name=name, kind=kind, summary=name, factory=f"leaves.{name}:Leaf", **more)


CATALOGUE = Catalogue(
    leaves=(
        leaf("console", LeafKind.CHAT, options=ConsoleOptions),
        leaf("discord", LeafKind.CHAT, options=DiscordOptions, secrets=("DISCORD_TOKEN",)),
        leaf("rehearsal", LeafKind.CRYSTAL),
        leaf(
            "anthropic",
            LeafKind.CRYSTAL,
            options=ModelOptions,
            secrets=("ANTHROPIC_API_KEY",),
            untaken="leaves.crystals.anthropic:untaken",
        ),
        leaf(
            "fs",
            LeafKind.SUBSTRATE,
            options=FsOptions,
            spells=(ReadText, ListDir, WriteText),
            trust={"fs.read_text": ("private",)},
        ),
        leaf(
            "shell",
            LeafKind.SUBSTRATE,
            options=ShellOptions,
            spells=(Exec,),
            trust={"shell.exec": ("private", "outward")},
            trust_if={"network": {"shell.exec": ("untrusted",)}},
        ),
        leaf("http", LeafKind.SUBSTRATE, spells=(Fetch,), trust={"http.fetch": ("untrusted", "outward")}),
    )
)


def edited(edits: Mapping[str, str], text: str = RIGHT) -> str:
    """The text with each of these parts replaced; each must be there exactly once."""
    for old, new in edits.items():
        assert text.count(old) == 1, f"{old!r} is in the text {text.count(old)} times"
        text = text.replace(old, new)
    return text


def unmarked(text: str) -> tuple[str, tuple[int, int]]:
    """The text without its mark, and the line and column where the mark stood."""
    before, mark, after = text.partition(MARK)
    assert mark
    return before + after, (before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)


def checked(text: str, environ: Mapping[str, str] | None = None, *, base: Path = Path(), **options: Any) -> Checked:
    catalogue = options.pop("catalogue", CATALOGUE)
    return check(load_text(text.encode(), environ or {}, base=base), catalogue, **options)


def problems(text: str, environ: Mapping[str, str] | None = None, **options: Any) -> tuple[Problem, ...]:
    return checked(text, environ, **options).problems


def configured(text: str = RIGHT, environ: Mapping[str, str] | None = None, **options: Any) -> Config:
    found = checked(text, environ, **options)
    assert found.config is not None, "\n".join(map(str, found.problems))
    return found.config
