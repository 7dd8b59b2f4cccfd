"""What a request costs, as far as prices are known."""

from __future__ import annotations

import pytest

from branches.agents.crystal import Usage
from branches.agents.prices import Price, price_of
from leaves.crystals.models import MODELS, PRICES, model_info

PRICE = Price(prompt=2, completion=10, cached=0.2)


def test_read_cached_and_written_tokens_have_prices_of_their_own():
    assert PRICE.cost(Usage(prompt=1_000_000, completion=0)) == pytest.approx(2)
    assert PRICE.cost(Usage(prompt=1_000_000, completion=100_000, cached=500_000)) == pytest.approx(1 + 0.1 + 1)


def test_without_a_price_of_their_own_cached_tokens_cost_what_others_do():
    assert Price(prompt=2, completion=10).cost(Usage(prompt=1_000_000, cached=400_000)) == pytest.approx(2)


def test_a_dated_version_costs_what_its_model_does():
    assert price_of("openai/gpt-5-2025-08-07", PRICES) == PRICES["openai/gpt-5"]
    assert price_of("anthropic/claude-haiku-4-5-20251001", PRICES) == PRICES["anthropic/claude-haiku-4-5"]


@pytest.mark.parametrize("model", [None, "local/llama", "openai/gpt-5-other"])
def test_another_model_has_no_price(model: str | None):
    assert price_of(model, PRICES) is None


def test_a_crystal_without_options_has_a_model_that_is_known():
    from leaves.crystals import anthropic, gemini, openai

    for provider, module in (("anthropic", anthropic), ("openai", openai), ("gemini", gemini)):
        assert model_info(f"{provider}/{module.DEFAULT_MODEL}") is MODELS[f"{provider}/{module.DEFAULT_MODEL}"]
