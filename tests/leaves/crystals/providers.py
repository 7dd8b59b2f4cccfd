"""Each provider's crystal, made for the loopback server or for the real service."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from branches.agents.prices import Price
from branches.secret import Secret
from coven.testing.providers.server import KEY
from leaves.crystals._remote import RemoteCrystal

ENVIRON = {"LOOPBACK_KEY": KEY, "WRONG_KEY": "a-wrong-key"}


class Provider(msgspec.Struct, frozen=True):
    """A provider: `make(url, **options)` gives its crystal, without a `url` that of the real service.

    `live` names the variable that must be set for that: its key, or its address where it has no key. `cheap` are the
    options, and `price` the price, of the model that tests ask there. `returns` is what stands in a request when
    thoughts are sent back. With the options `seeing` it takes images.
    """

    name: str
    make: Callable[..., RemoteCrystal]
    live: str
    cheap: Mapping[str, Any] = {}
    price: Price = Price(prompt=0, completion=0)
    forces: bool = True
    thinks: bool = True
    returns: bytes | None = None
    seeing: Mapping[str, Any] = {}


def secret(variable: str = "LOOPBACK_KEY") -> Secret:
    return Secret(f"${{{variable}}}", ENVIRON)


def _anthropic(url: str | None, **options: Any) -> RemoteCrystal:
    from leaves.crystals.anthropic import AnthropicCrystal, AnthropicOptions

    return AnthropicCrystal(AnthropicOptions(**_at(url, "") | options))


def _openai(url: str | None, **options: Any) -> RemoteCrystal:
    from leaves.crystals.openai import OpenAICrystal, OpenAIOptions

    return OpenAICrystal(OpenAIOptions(**_at(url, "/v1") | options))


def _gemini(url: str | None, **options: Any) -> RemoteCrystal:
    from leaves.crystals.gemini import GeminiCrystal, GeminiOptions

    return GeminiCrystal(GeminiOptions(**_at(url, "") | options))


def _openrouter(url: str | None, **options: Any) -> RemoteCrystal:
    from leaves.crystals.openrouter import OpenRouterCrystal, OpenRouterOptions

    elsewhere = os.environ.get("OPENROUTER_BASE_URL")  # as the other SDKs have such a variable
    address = {"base_url": elsewhere} if url is None and elsewhere else _at(url, "/api/v1")
    return OpenRouterCrystal(OpenRouterOptions(**address | options))


def _local(url: str | None, **options: Any) -> RemoteCrystal:
    from leaves.crystals.local import LocalCrystal, LocalOptions

    return LocalCrystal(LocalOptions(**_at(url, "/v1") | options))


def _at(url: str | None, path: str) -> dict[str, Any]:
    return {} if url is None else {"api_key": secret(), "base_url": url + path}


ANTHROPIC = Provider(
    "anthropic",
    _anthropic,
    "ANTHROPIC_API_KEY",
    {"model": "claude-haiku-5-5"},
    Price(prompt=0.125, completion=0.5),  # what is put into its cache costs a quarter more
    forces=False,
    returns=b'"signature"',
)
OPENAI = Provider(
    "openai",
    _openai,
    "OPENAI_API_KEY",
    {"model": "gpt-5-nano", "effort": "low"},
    Price(prompt=0.05, completion=0.4),
    returns=b'"encrypted_content"',
)
GEMINI = Provider(
    "gemini",
    _gemini,
    "GEMINI_API_KEY",
    {"model": "gemini-2.5-flash-lite"},
    Price(prompt=0.1, completion=0.4),
    returns=b'"thoughtSignature"',
)
OPENROUTER = Provider(
    "openrouter",
    _openrouter,
    "OPENROUTER_API_KEY",
    {"model": "google/gemini-2.5-flash-lite", "images": True},
    Price(prompt=0.1, completion=0.4),
    forces=False,
    returns=b'"reasoning_details"',
)
LOCAL = Provider(
    "local",
    _local,
    "COVEN_LOCAL_URL",
    forces=False,
    returns=b'"reasoning_details"',
    seeing={"images": True, "model": "eyes"},
)
PROVIDERS = (ANTHROPIC, OPENAI, GEMINI, OPENROUTER, LOCAL)
