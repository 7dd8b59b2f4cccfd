"""Which crystal `auto` is."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from branches.agents.permission import VARIABLE
from branches.catalogue import LeafKind
from coven.crystals import Choice, choose_crystal
from coven.testing.providers import ProviderServer
from leaves.catalogue import CATALOGUE
from leaves.crystals.local import URL_VARIABLE, LocalOptions, find_endpoint

KEYS = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
}


@pytest.fixture
def permitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


async def nobody(environ: Mapping[str, str]) -> str | None:
    return None


async def somebody(environ: Mapping[str, str]) -> str | None:
    return "http://127.0.0.1:11434/v1"


async def chosen(environ: Mapping[str, str]) -> Choice:
    return await choose_crystal(CATALOGUE, environ, nobody)


async def test_without_a_key_the_rehearsal_crystal_answers_and_nothing_is_said(permitted: None):
    choice = await chosen({})
    assert (choice.leaf.name, choice.notice) == ("rehearsal", None)


@pytest.mark.parametrize(("name", "key"), KEYS.items())
async def test_the_provider_whose_key_is_set_is_taken(name: str, key: str):
    choice = await chosen({key: "canary"})
    assert choice.leaf.name == name
    assert choice.leaf.options is not None
    assert choice.options == choice.leaf.options()
    assert choice.notice is None


async def test_of_several_the_first_is_taken():
    """In the order that the README states."""
    left = dict(KEYS)
    for name in KEYS:
        assert (await chosen(dict.fromkeys(left.values(), "canary"))).leaf.name == name
        del left[name]


async def test_an_empty_key_is_none():
    assert (await chosen({"OPENAI_API_KEY": ""})).leaf.name == "rehearsal"


async def test_a_local_endpoint_that_answers_is_taken_where_no_key_is_set(permitted: None):
    choice = await choose_crystal(CATALOGUE, {}, somebody)
    assert choice.leaf.name == "local"
    assert choice.options == LocalOptions(base_url="http://127.0.0.1:11434/v1")
    assert choice.notice is not None
    assert "http://127.0.0.1:11434/v1" in choice.notice
    assert (await choose_crystal(CATALOGUE, {"OPENAI_API_KEY": "x"}, somebody)).leaf.name == "openai"


async def test_where_models_may_not_be_asked_no_endpoint_is_looked_for():
    assert (await choose_crystal(CATALOGUE, {}, somebody)).leaf.name == "rehearsal"


async def test_an_endpoint_is_one_that_names_a_model():
    async with ProviderServer() as server:
        url = f"{server.url}/v1"
        assert await find_endpoint({URL_VARIABLE: url}) == url
    assert await find_endpoint({URL_VARIABLE: url}) is None


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/v1", "http://localhost:99999/v1", "http://[::1]:1", "127.0.0.1"])
async def test_where_nobody_listens_there_is_no_endpoint(url: str):
    assert await find_endpoint({URL_VARIABLE: url}) is None


def test_every_crystal_of_the_catalogue_says_which_key_it_needs():
    crystals = CATALOGUE.of(LeafKind.CRYSTAL)
    assert {name: leaf.secrets for name, leaf in crystals.items() if leaf.secrets} == {
        name: (key,) for name, key in KEYS.items()
    }
