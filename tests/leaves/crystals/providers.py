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

    `returns` is what stands in a request when thoughts are sent back.
    """

    name: str
    make: Callable[..., RemoteCrystal]
    live: str | None
    forces: bool = True
    thinks: bool = True
    returns: bytes | None = None


def secret() -> Secret:
    return Secret("${LOOPBACK_KEY}", ENVIRON)


def _anthropic(url: str | None, **options: Any) -> RemoteCrystal:
    from leaves.crystals.anthropic import AnthropicCrystal, AnthropicOptions

    return AnthropicCrystal(AnthropicOptions(**_address(url), **options))


def _address(url: str | None) -> Mapping[str, Any]:
    return {} if url is None else {"api_key": secret(), "base_url": url}


ANTHROPIC = Provider("anthropic", _anthropic, "ANTHROPIC_API_KEY", forces=False, returns=b'"signature"')
PROVIDERS = (ANTHROPIC,)
LIVE = tuple(
    each for each in PROVIDERS if os.environ.get("COVEN_LIVE") == "1" and each.live and os.environ.get(each.live)
)
