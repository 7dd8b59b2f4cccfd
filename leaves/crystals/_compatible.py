"""Servers that speak chat completions, through OpenAI's SDK."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from branches.agents.crystal import CrystalRequest, CrystalResponse
from leaves.crystals._completions import Assembling, build, read
from leaves.crystals._failures import translated, unreachable
from leaves.crystals._hearing import Hearing
from leaves.crystals._images import Sight
from leaves.crystals._names import Names
from leaves.crystals._remote import RemoteCrystal
from leaves.crystals._wire import connect

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class CompatibleCrystal(RemoteCrystal):
    """A model behind an endpoint of this format. Few of them can be made to call a gate, so it is insisted on."""

    def __init__(
        self,
        provider: str,
        model: str,
        *,
        title: str,
        base_url: str,
        key: Callable[[], str],
        context_limit: int | None,
        timeout_s: float,
        cache: bool = False,
        extra: Mapping[str, Any] | None = None,
        images: bool = False,
    ) -> None:
        """`title` is how people call the provider; `extra` are fields of every request's body.

        `images` says that the model takes images.
        """
        super().__init__(
            provider,
            model,
            context_limit=context_limit,
            untaken=frozenset(),
            forces=False,
            sight=Sight(takes=images),
        )
        self._name, self._title, self._base_url, self._key = model, title, base_url, key
        self._timeout_s, self._cache, self._extra = timeout_s, cache, extra or {}

    def _connect(self) -> AsyncOpenAI:
        import openai

        return connect(
            openai, openai.AsyncOpenAI, api_key=self._key(), base_url=self._base_url, timeout_s=self._timeout_s
        )

    async def _disconnect(self, client: AsyncOpenAI) -> None:
        await client.close()

    async def _ask(self, client: Any, request: CrystalRequest, hearing: Hearing | None) -> CrystalResponse:
        import openai

        names, most = Names(tool.name for tool in request.tools), request.sampling.max_tokens
        with translated(openai, self._title):
            name = self._name = self._name or await self._first_model(client)
            self.model = f"{self.provider}/{name}"
            body = {"model": name, **build(request, self.model, names, cache=self._cache)}
            if hearing is None:
                answer = await client.chat.completions.create(**body, extra_body=self._extra)
                return read(answer.model_dump(exclude_none=True, warnings=False), names, self.model, most)
            assembling = Assembling()
            body |= {"stream": True, "stream_options": {"include_usage": True}}
            async with await client.chat.completions.create(**body, extra_body=self._extra) as stream:
                async for chunk in stream:
                    hearing.take(assembling.take(chunk.model_dump(exclude_none=True, warnings=False)))
        if not assembling.complete:
            raise unreachable(self._title, EOFError("the stream ended before the answer did"))
        return read(assembling.completion, names, self.model, most)

    async def _first_model(self, client: AsyncOpenAI) -> str:
        """The model that the endpoint names first."""
        models = await client.models.list()
        return models.data[0].id
