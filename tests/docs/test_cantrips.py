"""The page of cantrips: its YAML is checked."""

from __future__ import annotations

import msgspec
from ruamel.yaml import YAML

from branches.agents.options import AgentsOptions
from tests.docs.examples import blocks

BLOCKS = blocks("cantrips.md")


def test_the_yaml_is_what_an_agents_instance_takes() -> None:
    (text,) = [block.text for block in BLOCKS if block.info == "yaml"]
    options = msgspec.convert(YAML(typ="safe").load(text)["agents"], AgentsOptions)
    assert options.folding is not None
