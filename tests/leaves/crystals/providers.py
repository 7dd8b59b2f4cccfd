"""Each provider's crystal, as the contract needs it: made for the loopback server, or for the real service."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from branches.secret import Secret
from coven.testing.providers.server import KEY
from leaves.crystals._remote import RemoteCrystal

ENVIRON = {"LOOPBACK_KEY": KEY}


class Provider(msgspec.Struct, frozen=True):
    """A provider: `make(url, **options)` gives its crystal. `live` names the variable that its real key stands in.

    `returns` is what stands in a request when thoughts are sent back. With the options `seeing` it takes images.
    """

    name: str
    make: Callable[..., RemoteCrystal]
    live: str | None
    forces: bool = True
    thinks: bool = True
    returns: bytes | None = None
    seeing: Mapping[str, Any] = {}


def secret() -> Secret:
    return Secret("${LOOPBACK_KEY}", ENVIRON)


def _anthropic(url: str | None, **options: Any) -> RemoteCrystal:
    from leaves.crystals.anthropic import AnthropicCrystal, AnthropicOptions

    return AnthropicCrystal(AnthropicOptions(**_address(url), **options))


def _openai(url: str | None, **options: Any) -> RemoteCrystal:
    from leaves.crystals.openai import OpenAICrystal, OpenAIOptions

    address = {} if url is None else {"api_key": secret(), "base_url": f"{url}/v1"}
    return OpenAICrystal(OpenAIOptions(**address, **options))


def _gemini(url: str | None, **options: Any) -> RemoteCrystal:
    from leaves.crystals.gemini import GeminiCrystal, GeminiOptions

    return GeminiCrystal(GeminiOptions(**_address(url), **options))


def _openrouter(url: str | None, **options: Any) -> RemoteCrystal:
    from leaves.crystals.openrouter import OpenRouterCrystal, OpenRouterOptions

    address = {} if url is None else {"api_key": secret(), "base_url": f"{url}/api/v1"}
    return OpenRouterCrystal(OpenRouterOptions(**address, **options))


def _local(url: str | None, **options: Any) -> RemoteCrystal:
    from leaves.crystals.local import LocalCrystal, LocalOptions

    return LocalCrystal(LocalOptions(base_url=f"{url}/v1", api_key=secret(), **options))


def _address(url: str | None) -> Mapping[str, Any]:
    return {} if url is None else {"api_key": secret(), "base_url": url}


ANTHROPIC = Provider("anthropic", _anthropic, "ANTHROPIC_API_KEY", forces=False, returns=b'"signature"')
OPENAI = Provider("openai", _openai, "OPENAI_API_KEY", returns=b'"encrypted_content"')
GEMINI = Provider("gemini", _gemini, "GEMINI_API_KEY", returns=b'"thoughtSignature"')
OPENROUTER = Provider("openrouter", _openrouter, "OPENROUTER_API_KEY", forces=False, returns=b'"reasoning_details"')
LOCAL = Provider(
    "local", _local, None, forces=False, returns=b'"reasoning_details"', seeing={"images": True, "model": "eyes"}
)
PROVIDERS = (ANTHROPIC, OPENAI, GEMINI, OPENROUTER, LOCAL)
LIVE = tuple(
    each for each in PROVIDERS if os.environ.get("COVEN_LIVE") == "1" and each.live and os.environ.get(each.live)
)
