"""Google's Gemini, through its SDK."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from branches.agents.crystal import CrystalError, CrystalRequest, CrystalResponse
from branches.secret import Secret
from leaves.crystals._failures import status_error, unreachable
from leaves.crystals._gemini import Assembling, contents, tools
from leaves.crystals._hearing import Hearing
from leaves.crystals._images import Sight
from leaves.crystals._names import Names
from leaves.crystals._remote import RemoteCrystal
from leaves.crystals._wire import certificates, make_client, timeout
from leaves.crystals.models import model_info, takes_images

_TITLE = "Gemini"
KEY = "GEMINI_API_KEY"
DEFAULT_MODEL = "gemini-3.8-flash"
_TYPES = ("image/png", "image/jpeg", "image/webp")
_MOST = 14 * 1024 * 1024  # of the 20 MB that it takes in a request, before they are written as text


class GeminiOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the crystal `gemini`."""

    model: Annotated[str, Meta(description="the model, by the provider's name for it")] = DEFAULT_MODEL
    api_key: Annotated[Secret | None, Meta(description="default: `${GEMINI_API_KEY}`")] = None
    base_url: Annotated[str | None, Meta(description="another address of the service")] = None
    thoughts: Annotated[bool, Meta(description="let a summary of the model's thoughts be seen")] = True
    thinking: Annotated[
        Literal["minimal", "low", "medium", "high"] | None, Meta(description="how much the model thinks")
    ] = None
    context_limit: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="tokens that the model takes; default: what is known of it"),
    ] = None
    timeout_s: Annotated[float, Meta(gt=0, description="seconds to wait for the next piece of an answer")] = 600.0


class GeminiCrystal(RemoteCrystal):
    """A model of the Gemini API. Its signatures go back to it with what they were given for."""

    def __init__(self, options: GeminiOptions | None = None) -> None:
        """Raises `SecretUnset` if there is no key."""
        self.options = options = options or GeminiOptions()
        info = model_info(f"gemini/{options.model}")
        self._key = options.api_key or Secret(f"${{{KEY}}}", os.environ)
        self._key.reveal()
        super().__init__(
            "gemini",
            options.model,
            context_limit=options.context_limit or (info.context_limit if info else None),
            untaken=frozenset(),
            forces=True,
            sight=Sight(takes=takes_images(f"gemini/{options.model}", otherwise=True), types=_TYPES, most_in_all=_MOST),
        )

    def _connect(self) -> Any:
        import httpx2
        from google.genai import Client

        seconds = self.options.timeout_s
        connection = make_client(httpx2.AsyncClient, timeout=timeout(seconds))
        options: Any = {
            "base_url": self.options.base_url,
            "timeout": int(seconds * 1000),
            "retry_options": {"attempts": 1},
            "httpx_async_client": connection,  # or the SDK would take aiohttp wherever that is installed
            "client_args": {"verify": certificates()},  # or the clients that it makes and never uses would each read
            "async_client_args": {"ssl": certificates()},  # the system's certificates anew
        }
        client = Client(api_key=self._key.reveal(), vertexai=False, http_options=options)
        return client, connection

    async def _disconnect(self, client: Any) -> None:
        sdk, connection = client
        await sdk.aio.aclose()
        sdk.close()
        await connection.aclose()

    async def _ask(self, client: Any, request: CrystalRequest, hearing: Hearing | None) -> CrystalResponse:
        import httpx2
        from google.genai import errors

        names = Names(tool.name for tool in request.tools)
        system, said = contents(request, self.model, names)
        config = {**self._asked(request), **tools(request, names)}
        if system is not None:
            config["system_instruction"] = system
        asked: dict[str, Any] = {"model": self.options.model, "contents": said, "config": config}
        assembling, models = Assembling(names, self.model), client[0].aio.models
        try:
            if hearing is None:
                assembling.take((await models.generate_content(**asked)).model_dump(exclude_none=True, warnings=False))
            else:
                async for chunk in await models.generate_content_stream(**asked):
                    hearing.take(assembling.take(chunk.model_dump(exclude_none=True, warnings=False)))
        except errors.APIError as error:
            raise _translated(error) from error
        except httpx2.TransportError as error:
            raise unreachable(_TITLE, error) from error
        except errors.UnknownApiResponseError as error:
            if hearing is not None:
                raise unreachable(_TITLE, error) from error
            raise CrystalError("invalid_response", f"{_TITLE} answered with something unreadable: {error}") from error
        if not assembling.complete:
            raise unreachable(_TITLE, EOFError("the stream ended before the answer did"))
        return assembling.response()

    def _asked(self, request: CrystalRequest) -> dict[str, Any]:
        sampling = request.sampling
        thinking = {"include_thoughts": self.options.thoughts or None, "thinking_level": self.options.thinking}
        asked = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_output_tokens": sampling.max_tokens,
            "stop_sequences": list(sampling.stop) or None,
            "thinking_config": {name: value for name, value in thinking.items() if value is not None} or None,
        }
        return {name: value for name, value in asked.items() if value is not None}


def _translated(error: Any) -> CrystalError:
    """An error of the SDK. How long to wait may stand in a header or in the error itself (`"retryDelay": "7s"`).

    That the key is wrong stands there only: its status is that of any bad request.
    """
    headers, status = dict(getattr(error.response, "headers", None) or {}), error.code or 500
    try:
        details: list[Any] = [each for each in error.details["error"]["details"] if "@type" in each]
    except (LookupError, TypeError):
        details = []
    for detail in details:
        if "retryDelay" in detail:
            headers.setdefault("retry-after", str(detail["retryDelay"]).removesuffix("s"))
        if detail.get("reason") == "API_KEY_INVALID":
            status = 401
    return status_error(_TITLE, status, error.message or str(error), headers)
