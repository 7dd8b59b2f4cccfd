"""What asking real services may cost: it is looked at before each request, not after it."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from branches.agents.crystal import CrystalRequest, Usage
from branches.agents.prices import Price
from leaves.crystals.models import PRICES

LIMIT = "COVEN_LIVE_DOLLARS"
DOLLARS = 0.10
"""US dollars for each provider, unless the variable says otherwise."""
DEAREST = Price(
    prompt=max(price.prompt for price in PRICES.values()), completion=max(price.completion for price in PRICES.values())
)
"""What a model is taken to cost that somebody names by hand."""
_ATTEMPTS = 3  # of a call that is required of a model that cannot be made to call
_IMAGE = 1_600
_ANY_PROMPT = 1_000


class TooDear(AssertionError):
    """The next request might cost more than is left."""


class Till:
    """The money for one provider. A request whose answer never came counts with the most that it can have cost."""

    def __init__(self, provider: str, price: Price, dollars: float) -> None:
        self._provider, self._price, self._dollars = provider, price, dollars
        self.spent = 0.0

    def __repr__(self) -> str:
        return f"<Till of {self._provider}: ${self.spent:.4f} of ${self._dollars:.2f}>"

    def reserve(self, request: CrystalRequest) -> float:
        """Take what it can cost at most. Raises `TooDear`."""
        most = self._price.cost(most_of(request))
        if self.spent + most > self._dollars:
            raise TooDear(
                f"{self._provider} may cost ${self._dollars:.2f} in a run, ${self.spent:.4f} are spent, and the next "
                f"request may cost ${most:.4f}: allow more with {LIMIT}"
            )
        self.spent += most
        return most

    def settle(self, reserved: float, usage: Usage) -> None:
        """The answer has come, and cost this."""
        self.spent += self._price.cost(usage) - reserved


def most_of(request: CrystalRequest) -> Usage:
    """The tokens that a request can use: none is shorter than a byte, and what it writes is bounded."""
    assert request.sampling.max_tokens is not None, "a request to a real service bounds what it writes"
    images = sum(len(message.images) for message in request.messages)
    said = [msgspec.structs.replace(message, images=()) for message in request.messages]
    prompt = len(msgspec.json.encode([said, request.tools])) + _IMAGE * images + _ANY_PROMPT
    attempts = _ATTEMPTS if request.tool_choice == "required" else 1
    heard_again = request.sampling.max_tokens * sum(range(attempts))  # what was said instead of a call
    return Usage(prompt=prompt * attempts + heard_again, completion=request.sampling.max_tokens * attempts)


def allowed(environ: Mapping[str, str] = os.environ) -> float:
    """The dollars for each provider in this process: of several that test, each has its share."""
    return float(environ.get(LIMIT) or DOLLARS) / int(environ.get("PYTEST_XDIST_WORKER_COUNT") or 1)
