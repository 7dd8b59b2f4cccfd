"""What requests cost, from a table of prices. An estimate: a provider's bill knows discounts and caches better."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from branches.agents.crystal import Usage

_DATED = re.compile(r"-(?:\d{4}-?\d{2}-?\d{2}|latest)$")
_MILLION = 1_000_000
Dollars = Annotated[float, Meta(ge=0)]


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """US dollars for a million tokens. Without a price of their own, cached tokens cost what others do."""

    prompt: Annotated[Dollars, Meta(description="US dollars for a million tokens that are read")]
    completion: Annotated[Dollars, Meta(description="US dollars for a million tokens that are written")]
    cached: Annotated[
        Dollars | None, Meta(description="US dollars for a million tokens read from a cache; default: as `prompt`")
    ] = None

    def cost(self, usage: Usage) -> float:
        """US dollars for this usage."""
        cached = self.prompt if self.cached is None else self.cached
        fresh = max(0, usage.prompt - usage.cached)
        return (fresh * self.prompt + usage.cached * cached + usage.completion * self.completion) / _MILLION


def price_of(model: str | None, prices: Mapping[str, Price]) -> Price | None:
    """The price of `provider/model`; a dated version costs what the model without its date does."""
    return None if model is None else prices.get(model) or prices.get(undated(model))


def undated(model: str) -> str:
    """A model's name without the date of its version."""
    return _DATED.sub("", model)
