"""A model on this machine or in this house: Ollama, vLLM, llama.cpp, LM Studio, any endpoint like OpenAI's."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Annotated, Any, Final, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from branches.secret import Secret
from leaves.crystals._compatible import CompatibleCrystal

URL_VARIABLE: Final = "COVEN_LOCAL_URL"
OLLAMA: Final = "http://127.0.0.1:11434/v1"
ENDPOINTS: Final = (OLLAMA, "http://127.0.0.1:8080/v1", "http://127.0.0.1:8000/v1", "http://127.0.0.1:1234/v1")
"""Where Ollama, llama.cpp, vLLM and LM Studio listen unless told otherwise."""
_HERE: Final = ("127.0.0.1", "localhost", "::1")
_PATIENCE_S: Final = 0.5
_NO_KEY: Final = "none"


class LocalOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the crystal `local`."""

    base_url: Annotated[
        str | None, Meta(description="the endpoint, with `/v1`; default: `COVEN_LOCAL_URL`, else that of Ollama")
    ] = None
    model: Annotated[str | None, Meta(description="the model; default: the first that the endpoint names")] = None
    api_key: Annotated[Secret | None, Meta(description="where the endpoint wants one, e.g. `${VLLM_KEY}`")] = None
    context_limit: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="tokens that the model takes; without it nothing is folded")
    ] = None
    images: Annotated[bool, Meta(description="whether the model takes images")] = False
    timeout_s: Annotated[float, Meta(gt=0, description="seconds to wait for the next piece of an answer")] = 600.0


class LocalCrystal(CompatibleCrystal):
    """A model behind an endpoint of one's own."""

    def __init__(self, options: LocalOptions | None = None) -> None:
        self.options = options = options or LocalOptions()
        key = options.api_key
        if key is not None:
            key.reveal()
        super().__init__(
            "local",
            options.model or "",
            title="the local endpoint",
            base_url=options.base_url or os.environ.get(URL_VARIABLE) or OLLAMA,
            key=(lambda: _NO_KEY) if key is None else key.reveal,
            context_limit=options.context_limit,
            timeout_s=options.timeout_s,
            images=options.images,
        )


async def find_endpoint(environ: Mapping[str, str]) -> str | None:
    """The address of an endpoint that answers and names a model, or None: the configured one, or a usual one."""
    configured = environ.get(URL_VARIABLE)
    candidates = (configured,) if configured else ENDPOINTS
    answers = await asyncio.gather(*(_names_a_model(url) for url in candidates))
    return next((url for url, answered in zip(candidates, answers, strict=True) if answered), None)


async def _names_a_model(url: str) -> bool:
    here = urlsplit(url).hostname in _HERE
    if here and not await _listens(url):
        return False  # so that a start where nobody listens need not import a client to find out
    import httpx2

    try:
        async with httpx2.AsyncClient(timeout=_PATIENCE_S, trust_env=not here) as client:
            answer = (await client.get(f"{url}/models")).raise_for_status().json()
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError):
        return False
    models = cast("dict[str, Any]", answer).get("data") if isinstance(answer, dict) else None
    return isinstance(models, list) and len(cast("list[Any]", models)) > 0


async def _listens(url: str) -> bool:
    """Whether anybody takes connections at this address."""
    try:
        address = urlsplit(url)
        async with asyncio.timeout(_PATIENCE_S):
            _, writer = await asyncio.open_connection(
                address.hostname, address.port or (443 if address.scheme == "https" else 80)
            )
    except (OSError, ValueError):  # a time-out is an OSError
        return False
    writer.transport.abort()
    return True
