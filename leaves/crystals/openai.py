"""OpenAI's models, through its SDK and its Responses API."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from branches.agents.crystal import CrystalRequest, CrystalResponse
from branches.secret import Secret
from leaves.crystals._failures import translated, unreachable
from leaves.crystals._hearing import Hearing
from leaves.crystals._images import Sight
from leaves.crystals._names import Names
from leaves.crystals._remote import RemoteCrystal
from leaves.crystals._responses import TITLE, Assembling, build, read
from leaves.crystals._wire import connect
from leaves.crystals.models import model_info, takes_images

if TYPE_CHECKING:
    from openai import AsyncOpenAI

KEY = "OPENAI_API_KEY"
DEFAULT_MODEL = "gpt-6.1-terra"
_OF_OLD = ("gpt-3", "gpt-4", "chatgpt")


class OpenAIOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the crystal `openai`."""

    model: Annotated[str, Meta(description="the model, by the provider's name for it")] = DEFAULT_MODEL
    api_key: Annotated[Secret | None, Meta(description="default: `${OPENAI_API_KEY}`")] = None
    base_url: Annotated[str | None, Meta(description="another address of the service, with `/v1`")] = None
    effort: Annotated[
        Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None,
        Meta(description="how much the model reasons; not every model has every way"),
    ] = None
    summary: Annotated[
        Literal["auto", "concise", "detailed"] | None,
        Meta(description="let a summary of the reasoning be seen, where the account may"),
    ] = None
    context_limit: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="tokens that the model takes; default: what is known of it"),
    ] = None
    timeout_s: Annotated[float, Meta(gt=0, description="seconds to wait for the next piece of an answer")] = 600.0

    def __post_init__(self) -> None:
        for name in ("effort", "summary"):
            if getattr(self, name) is not None and not reasons(self.model):
                raise ValueError(f"the model `{self.model}` does not reason before it answers: it takes no `{name}`")


def untaken(options: OpenAIOptions) -> frozenset[str]:
    """The fields of `Sampling` that a model does not take: one that reasons has no temperature."""
    return frozenset({"temperature", "top_p"} if reasons(options.model) else ())


def reasons(model: str) -> bool:
    """Whether a model reasons before it answers."""
    return not model.startswith(_OF_OLD) and "-chat" not in model


class OpenAICrystal(RemoteCrystal):
    """A model of OpenAI's. Nothing is stored there; its reasoning goes back to it encrypted.

    It is not told of stop sequences, which its API lacks: nothing behind one is shown, and it is paid for.
    """

    def __init__(self, options: OpenAIOptions | None = None) -> None:
        """Raises `SecretUnset` if there is no key."""
        self.options = options = options or OpenAIOptions()
        info = model_info(f"openai/{options.model}")
        self._key = options.api_key or Secret(f"${{{KEY}}}", os.environ)
        self._key.reveal()
        super().__init__(
            "openai",
            options.model,
            context_limit=options.context_limit or (info.context_limit if info else None),
            untaken=untaken(options),
            forces=True,
            sight=Sight(takes=takes_images(f"openai/{options.model}", otherwise=True)),
        )

    def _connect(self) -> AsyncOpenAI:
        import openai

        key, options = self._key.reveal(), self.options
        return connect(openai, openai.AsyncOpenAI, api_key=key, base_url=options.base_url, timeout_s=options.timeout_s)

    async def _disconnect(self, client: AsyncOpenAI) -> None:
        await client.close()

    async def _ask(self, client: Any, request: CrystalRequest, hearing: Hearing | None) -> CrystalResponse:
        import openai

        names, stops = Names(tool.name for tool in request.tools), request.sampling.stop
        body = {**self._asked(request), **build(request, self.model, names)}
        with translated(openai, TITLE):
            if hearing is None:
                response = await client.responses.create(**body)
                return read(response.model_dump(exclude_none=True, warnings=False), names, self.model, stops)
            assembling = Assembling(stops)
            async with await client.responses.create(**body, stream=True) as stream:
                async for event in stream:
                    hearing.take(assembling.take(event))
        if assembling.response is None:
            raise unreachable(TITLE, EOFError("the stream ended before the answer did"))
        return read(assembling.response, names, self.model, stops)

    def _asked(self, request: CrystalRequest) -> dict[str, Any]:
        options, sampling = self.options, request.sampling
        asked: dict[str, Any] = {"model": options.model, "store": False}
        if sampling.max_tokens is not None:
            asked["max_output_tokens"] = sampling.max_tokens
        if reasons(options.model):
            asked["include"] = ["reasoning.encrypted_content"]
            reasoning = {"effort": options.effort, "summary": options.summary}
            asked["reasoning"] = {name: value for name, value in reasoning.items() if value is not None}
        for name in ("temperature", "top_p"):
            value = getattr(sampling, name)
            if value is not None and name not in self.untaken:
                asked[name] = value
        return asked
