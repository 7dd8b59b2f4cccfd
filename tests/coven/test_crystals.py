"""Which crystal `auto` is."""

from __future__ import annotations

from branches.catalogue import Catalogue, LeafInfo, LeafKind
from coven.crystals import choose_crystal
from leaves.catalogue import CATALOGUE


def crystal(name: str, *secrets: str) -> LeafInfo:
    return LeafInfo(name=name, kind=LeafKind.CRYSTAL, summary="", factory="x:y", secrets=secrets)


WITH_PROVIDERS = Catalogue(
    (crystal("anthropic", "ANTHROPIC_API_KEY"), crystal("openai", "OPENAI_API_KEY"), crystal("rehearsal"))
)


def test_without_a_key_the_rehearsal_crystal_answers_and_nothing_is_said():
    choice = choose_crystal(CATALOGUE, {})
    assert (choice.leaf.name, choice.notice) == ("rehearsal", None)


def test_the_first_provider_whose_key_is_set_is_taken():
    assert choose_crystal(WITH_PROVIDERS, {"OPENAI_API_KEY": "x"}).leaf.name == "openai"
    assert choose_crystal(WITH_PROVIDERS, {"OPENAI_API_KEY": "x", "ANTHROPIC_API_KEY": "y"}).leaf.name == "anthropic"


def test_an_empty_key_is_none():
    assert choose_crystal(WITH_PROVIDERS, {"OPENAI_API_KEY": ""}).leaf.name == "rehearsal"


def test_a_key_of_a_provider_without_a_leaf_is_said_by_its_name_alone():
    choice = choose_crystal(WITH_PROVIDERS, {"GEMINI_API_KEY": "canary"})
    assert choice.leaf.name == "rehearsal"
    assert choice.notice is not None
    assert choice.notice.startswith("GEMINI_API_KEY is set, but")
    assert "canary" not in choice.notice
