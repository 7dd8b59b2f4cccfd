"""What is known of models: how much they take, and what they cost. One table; a configuration may say otherwise.

Prices are US dollars for a million tokens, as the providers published them by October 2026. A model that is not here
works as well: its limit can be configured, and its cost is not shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from branches.agents.prices import Price, undated


class ModelInfo(msgspec.Struct, frozen=True):
    """A model: tokens that it reads and writes at most, its price, and what it can.

    `forces` says that it can be made to call a gate, `images` that it can be shown images.
    """

    context_limit: int
    max_output: int
    price: Price
    forces: bool = False
    images: bool = True


def _info(context: int, output: int, prompt: float, completion: float, cached: float | None = None) -> ModelInfo:
    return ModelInfo(context, output, Price(prompt=prompt, completion=completion, cached=cached))


_MILLION: Final = 1_000_000
MODELS: Final[Mapping[str, ModelInfo]] = {
    "anthropic/claude-fable-5-1": _info(_MILLION, 128_000, 10, 50),
    "anthropic/claude-opus-5-5": _info(_MILLION, 128_000, 4, 20, 0.2),
    "anthropic/claude-opus-5": _info(_MILLION, 128_000, 5, 25, 0.5),
    "anthropic/claude-sonnet-5-5": _info(_MILLION, 128_000, 2, 10, 0.2),
    "anthropic/claude-sonnet-5": _info(_MILLION, 128_000, 2, 10, 0.2),
    "anthropic/claude-haiku-5-5": _info(_MILLION, 128_000, 0.1, 0.5),
    "anthropic/claude-haiku-4-5": ModelInfo(200_000, 64_000, Price(prompt=1, completion=5, cached=0.1), forces=True),
    "openai/gpt-6.1-terra": _info(1_050_000, 128_000, 1, 5),
    "openai/gpt-5.6-terra": _info(1_000_000, 128_000, 2.5, 15, 0.25),
    "openai/gpt-5.2": _info(400_000, 128_000, 1.75, 14, 0.175),
    "openai/gpt-5.1": _info(400_000, 128_000, 1.25, 10, 0.125),
    "openai/gpt-5": _info(400_000, 128_000, 1.25, 10, 0.125),
    "openai/gpt-5-mini": _info(400_000, 128_000, 0.25, 2, 0.025),
    "openai/gpt-5-nano": _info(400_000, 128_000, 0.05, 0.4, 0.005),
    "openai/gpt-4.1": _info(1_047_576, 32_768, 2, 8, 0.5),
    "openai/gpt-4.1-mini": _info(1_047_576, 32_768, 0.4, 1.6, 0.1),
    "openai/gpt-4.1-nano": _info(1_047_576, 32_768, 0.1, 0.4, 0.025),
    "openai/gpt-4": ModelInfo(8_192, 8_192, Price(prompt=30, completion=60), images=False),
    "openai/gpt-3.5-turbo": ModelInfo(16_385, 4_096, Price(prompt=0.5, completion=1.5), images=False),
    "openai/o3-mini": ModelInfo(200_000, 100_000, Price(prompt=1.1, completion=4.4, cached=0.55), images=False),
    "openai/o3": _info(200_000, 100_000, 2, 8, 0.5),
    "openai/o4-mini": _info(200_000, 100_000, 1.1, 4.4, 0.275),
    "gemini/gemini-3.8-flash": _info(_MILLION, 65_536, 0.75, 3.75),
    "gemini/gemini-2.5-pro": _info(1_048_576, 65_536, 1.25, 10, 0.125),
    "gemini/gemini-2.5-flash": _info(1_048_576, 65_536, 0.3, 2.5, 0.03),
    "gemini/gemini-2.5-flash-lite": _info(1_048_576, 65_536, 0.1, 0.4, 0.01),
}
PRICES: Final[Mapping[str, Price]] = {name: info.price for name, info in MODELS.items()}


def takes_images(model: str, *, otherwise: bool) -> bool:
    """Whether `provider/model` can be shown images; `otherwise` for one that is not here."""
    info = model_info(model)
    return otherwise if info is None else info.images


def model_info(model: str) -> ModelInfo | None:
    """What is known of `provider/model`; a dated version is the model without its date."""
    return MODELS.get(model) or MODELS.get(undated(model))
