"""Models of many providers, through OpenRouter."""

from __future__ import annotations

import os
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from branches.secret import Secret
from leaves.crystals._compatible import CompatibleCrystal
from leaves.crystals.models import takes_images

KEY = "OPENROUTER_API_KEY"
_AUTO = "openrouter/auto"
_URL = "https://openrouter.ai/api/v1"


class OpenRouterOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the crystal `openrouter`."""

    model: Annotated[str, Meta(description="the model, as `provider/model`; by default OpenRouter chooses one")] = _AUTO
    api_key: Annotated[Secret | None, Meta(description="default: `${OPENROUTER_API_KEY}`")] = None
    base_url: Annotated[str, Meta(description="the address of the service")] = _URL
    effort: Annotated[
        Literal["low", "medium", "high"] | None, Meta(description="how much the model reasons, where it can")
    ] = None
    context_limit: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="tokens that the model takes; without it nothing is folded")
    ] = None
    images: Annotated[
        bool | None, Meta(description="whether the model takes images; default: what is known of it, else false")
    ] = None
    timeout_s: Annotated[float, Meta(gt=0, description="seconds to wait for the next piece of an answer")] = 600.0


class OpenRouterCrystal(CompatibleCrystal):
    """A model of any provider that OpenRouter has."""

    def __init__(self, options: OpenRouterOptions | None = None) -> None:
        """Raises `SecretUnset` if there is no key."""
        self.options = options = options or OpenRouterOptions()
        key = options.api_key or Secret(f"${{{KEY}}}", os.environ)
        key.reveal()
        super().__init__(
            "openrouter",
            options.model,
            title="OpenRouter",
            base_url=options.base_url,
            key=key.reveal,
            context_limit=options.context_limit,
            timeout_s=options.timeout_s,
            images=takes_images(options.model, otherwise=options.model == _AUTO)
            if options.images is None
            else options.images,
            cache=options.model.startswith("anthropic/"),
            extra={"reasoning": {"effort": options.effort}} if options.effort else None,
        )
