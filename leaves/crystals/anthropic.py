"""Claude, through Anthropic's SDK."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from branches.agents.crystal import CrystalRequest, CrystalResponse
from branches.secret import Secret
from leaves.crystals._anthropic import Assembling, build, read
from leaves.crystals._failures import translated, unreachable
from leaves.crystals._hearing import Hearing
from leaves.crystals._images import Sight
from leaves.crystals._remote import RemoteCrystal
from leaves.crystals._wire import connect
from leaves.crystals.models import model_info, takes_images

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

_NAME = "Anthropic"
KEY = "ANTHROPIC_API_KEY"
DEFAULT_MODEL = "claude-sonnet-5-5"
_MAX_TOKENS = 32_000
_MOST_OF_ONE = 5 * 1024 * 1024 * 3 // 4  # it takes 5 MiB of one image, as it is sent


class AnthropicOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the crystal `anthropic`."""

    model: Annotated[str, Meta(description="the model, by the provider's name for it")] = DEFAULT_MODEL
    api_key: Annotated[Secret | None, Meta(description="default: `${ANTHROPIC_API_KEY}`")] = None
    base_url: Annotated[str | None, Meta(description="another address of the service")] = None
    max_tokens: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="tokens that an answer has at most, thoughts included; default: 32000, or what the model can"),
    ] = None
    thinking: Annotated[
        Literal["adaptive", "between_tools", "disabled"] | None,
        Meta(description="how the model thinks; default: as it does by itself. Not every model has every way"),
    ] = None
    thinking_tokens: Annotated[
        Annotated[int, Meta(ge=1024)] | None,
        Meta(description="tokens for thinking, for models that take a budget in the place of `thinking`"),
    ] = None
    effort: Annotated[
        Literal["low", "medium", "high", "xhigh", "max"] | None, Meta(description="how thorough the model is")
    ] = None
    cache: Annotated[bool, Meta(description="have the provider cache the conversation so far")] = True
    context_limit: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="tokens that the model takes; default: what is known of it"),
    ] = None
    timeout_s: Annotated[float, Meta(gt=0, description="seconds to wait for the next piece of an answer")] = 600.0

    def __post_init__(self) -> None:
        info = model_info(f"anthropic/{self.model}")
        if self.thinking is not None and self.thinking_tokens is not None:
            raise ValueError("`thinking` and `thinking_tokens` are two ways to say how the model thinks: keep one")
        if self.max_tokens is not None and self.thinking_tokens is not None and self.thinking_tokens >= self.max_tokens:
            raise ValueError("`thinking_tokens` are a part of `max_tokens`: they must be fewer")
        if info is not None and self.max_tokens is not None and self.max_tokens > info.max_output:
            raise ValueError(f"the model `{self.model}` writes at most {info.max_output:,} tokens: lower `max_tokens`")


def untaken(options: AnthropicOptions) -> frozenset[str]:
    """The fields of `Sampling` that a model does not take: current ones refuse these, and the SDK lacks them."""
    del options
    return frozenset({"temperature", "top_p"})


class AnthropicCrystal(RemoteCrystal):
    """Claude. Its thoughts go back to it as long as nothing before them has changed."""

    def __init__(self, options: AnthropicOptions | None = None) -> None:
        """Raises `SecretUnset` if there is no key."""
        self.options = options = options or AnthropicOptions()
        name = f"anthropic/{options.model}"
        info = model_info(name)
        thinks = options.thinking not in (None, "disabled") or options.thinking_tokens is not None
        self._key = options.api_key or Secret(f"${{{KEY}}}", os.environ)
        self._key.reveal()
        self._max_tokens = options.max_tokens or min(_MAX_TOKENS, info.max_output if info else _MAX_TOKENS)
        super().__init__(
            "anthropic",
            options.model,
            context_limit=options.context_limit or (info.context_limit if info else None),
            untaken=untaken(options),
            forces=bool(info and info.forces) and not thinks,
            sight=Sight(takes=takes_images(name, otherwise=True), most_bytes=_MOST_OF_ONE),
        )

    def _connect(self) -> AsyncAnthropic:
        import anthropic

        key, options = self._key.reveal(), self.options
        return connect(
            anthropic, anthropic.AsyncAnthropic, api_key=key, base_url=options.base_url, timeout_s=options.timeout_s
        )

    async def _disconnect(self, client: AsyncAnthropic) -> None:
        await client.close()

    async def _ask(self, client: Any, request: CrystalRequest, hearing: Hearing | None) -> CrystalResponse:
        import anthropic

        built = build(request, self.model, cache=self.options.cache)
        body: dict[str, Any] = {
            "model": self.options.model,
            "max_tokens": request.sampling.max_tokens or self._max_tokens,
            **self._thinking(),
            **built.body,
        }
        with translated(anthropic, _NAME):
            if hearing is None:
                message = await client.messages.create(**body)
                return read(message.model_dump(exclude_none=True, warnings=False), built, self.model)
            assembling = Assembling()
            async with await client.messages.create(**body, stream=True) as stream:
                async for event in stream:
                    hearing.take(assembling.take(event.model_dump(exclude_none=True, warnings=False)))
        if not assembling.complete:
            raise unreachable(_NAME, EOFError("the stream ended before the answer did"))
        return read(assembling.message, built, self.model)

    def _thinking(self) -> dict[str, Any]:
        options = self.options
        asked: dict[str, Any] = {}
        if options.thinking_tokens is not None:
            asked["thinking"] = {"type": "enabled", "budget_tokens": options.thinking_tokens}
        elif options.thinking == "adaptive":
            asked["thinking"] = {"type": "adaptive", "display": "summarized"}
        elif options.thinking is not None:
            asked["thinking"] = {"type": options.thinking}
        if options.effort is not None:
            asked["output_config"] = {"effort": options.effort}
        return asked
