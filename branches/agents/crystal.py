"""The crystal: a model. It takes messages, gives one response, and keeps nothing between two requests (CRYSTAL-1)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Annotated, Final, Literal, Protocol, TypeGuard

import msgspec
from msgspec import Meta

from branches.agents.gates import GateDefinition
from branches.attachment import Attachment

Role = Literal["system", "user", "assistant", "tool"]
ToolChoice = Literal["auto", "required", "none"]
Finish = Literal["stop", "length", "tool_calls", "other"]
"""Why an answer ends: it was finished, or a stop sequence came; it reached a limit of tokens; it waits for its calls;
or the provider broke it off for another reason. What a filter or the model itself refuses is no answer, but an error.
"""


class ToolCall(msgspec.Struct, frozen=True):
    """A gate call as the crystal wrote it: `arguments` is JSON text, `id` is the provider's own."""

    id: str
    gate: str
    arguments: str = "{}"


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens of one request: read, written, and those of the read ones that came from a cache."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.prompt + other.prompt, self.completion + other.completion, self.cached + other.cached)


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of a context. A `tool` message answers the assistant's call `tool_call_id`.

    `model` and `opaque` are those of the response that an assistant's message was. `images` came with a user's
    message; its `content` names them, and a crystal that cannot show them says so there.
    """

    role: Role
    content: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    is_error: bool = False
    model: str | None = None
    opaque: str | None = None
    images: tuple[Attachment, ...] = ()


class Sampling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Hyperparameters of every request. What is left out is the provider's to choose."""

    temperature: Annotated[float | None, Meta(description="how freely the model chooses its words")] = None
    top_p: Annotated[float | None, Meta(description="choose among the likeliest words that make up this share")] = None
    max_tokens: Annotated[
        int | None,
        Meta(description="tokens that an answer has at most, thoughts included; one that needs more is cut off there"),
    ] = None
    stop: Annotated[tuple[str, ...], Meta(description="a text ends before the first of these")] = ()


class CrystalRequest(msgspec.Struct, frozen=True):
    """One request, of any number of messages (CRYSTAL-2).

    `messages` is a view of what was said so far; keeping it costs nothing and it never changes.
    """

    messages: Sequence[Message]
    tools: tuple[GateDefinition, ...] = ()
    tool_choice: ToolChoice = "auto"
    sampling: Sampling = Sampling()


class CrystalResponse(msgspec.Struct, frozen=True, omit_defaults=True):
    """One answer: text, gate calls, or both.

    `model` is what gave it, as `provider/model`. `opaque` is JSON text that this model wants back with the next
    request, signed thoughts for example; the crystals of other models leave it out. `finish` says why it ends,
    None where the crystal does not know. Of one that was cut off the last call is not made, since nobody can tell
    whether it is whole.
    """

    content: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    thinking: str | None = None
    model: str | None = None
    opaque: str | None = None
    finish: Finish | None = None


class CrystalError(Exception):
    """An expected failure of a crystal: it is recorded, and ends the episode as `failed` unless it is tried again.

    `code` is one word, e.g. `invalid_response`, `rate_limited`, `refused`, `unavailable`. `status` is the provider's
    HTTP status where it gave one, `retry_after_s` the seconds that it asks to be left alone. `usage` are the tokens of
    an answer that came and is of no use: they are paid for as well.

    An answer that a filter stopped, or that the model refused in the middle of it, is `refused` with all that it said:
    most providers would go on refusing whatever stands behind it.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
        usage: Usage = Usage(),  # noqa: B008 - it is frozen
    ) -> None:
        super().__init__(message)
        self.code, self.status, self.retry_after_s, self.usage = code, status, retry_after_s, usage


@contextmanager
def paid(usage: Usage) -> Generator[None]:
    """Whatever `CrystalError` is raised in here has used these tokens, beside its own."""
    try:
        yield
    except CrystalError as error:
        error.usage += usage
        raise


class Crystal(Protocol):
    """Anything that answers a context."""

    async def invoke(self, request: CrystalRequest, on_text: Callable[[str], None] | None = None) -> CrystalResponse:
        """Answer the request; `on_text` is told the pieces of the text as they come, where the crystal can stream.

        Raises `CrystalError` for what can be expected to fail; anything else is a bug and fails the service.
        """
        ...


class ThinkingCrystal(Crystal, Protocol):
    """A crystal that also tells its thoughts as they come, where its model lets them be seen."""

    async def invoke(
        self,
        request: CrystalRequest,
        on_text: Callable[[str], None] | None = None,
        on_thought: Callable[[str], None] | None = None,
    ) -> CrystalResponse:
        """See `Crystal.invoke`. `on_thought` is told the pieces of `thinking`, which put together are just that."""
        ...


def thinks_aloud(crystal: Crystal) -> TypeGuard[ThinkingCrystal]:
    """Whether a crystal takes `on_thought`. One that does not keeps its thoughts until its answer is whole."""
    return _takes_thoughts(getattr(crystal.invoke, "__func__", crystal.invoke))


@lru_cache(maxsize=256)
def _takes_thoughts(function: Callable[..., object]) -> bool:
    return "on_thought" in inspect.signature(function).parameters


async def invoke(
    crystal: Crystal,
    request: CrystalRequest,
    on_text: Callable[[str], None] | None,
    on_thought: Callable[[str], None] | None,
) -> CrystalResponse:
    """Ask any crystal; `on_thought` is told something where it is a `ThinkingCrystal`. Raises what `invoke` raises."""
    if on_thought is not None and thinks_aloud(crystal):
        return await crystal.invoke(request, on_text, on_thought)
    return await crystal.invoke(request, on_text)


def is_cut(finish: Finish | None) -> bool:
    """Whether an answer that ends so may lack its end."""
    return finish in ("length", "other")


_decoder: Final = msgspec.json.Decoder(CrystalResponse)


def validate(response: CrystalResponse, request: CrystalRequest) -> CrystalResponse:
    """The response itself. Raises `CrystalError`, code `invalid_response`, if it breaks CRYSTAL-3 to CRYSTAL-5."""
    if not isinstance(response, CrystalResponse):  # pyright: ignore[reportUnnecessaryIsInstance] - it is others' code
        raise _invalid(f"crystal returned {type(response).__name__} instead of a CrystalResponse")
    try:
        _check(response, request)
    except CrystalError as error:
        error.usage = _usage(response)
        raise
    return response


def _check(response: CrystalResponse, request: CrystalRequest) -> None:
    if not response.content and not response.tool_calls:
        raise _invalid("crystal returned neither content nor tool_calls")
    if request.tool_choice == "required" and not response.tool_calls:
        raise _invalid("crystal returned no tool call although tool_choice is 'required'")
    seen: set[str] = set()
    for call in response.tool_calls:
        if not call.id:
            raise _invalid(f"tool call without an ID (gate {call.gate!r})")
        if call.id in seen:
            raise _invalid(f"duplicate tool call ID: {call.id!r}")
        seen.add(call.id)
    try:
        _decoder.decode(msgspec.json.encode(response))
    except UnicodeEncodeError as error:
        raise _invalid("crystal returned text that is not valid Unicode (a lone surrogate)") from error
    except (TypeError, msgspec.ValidationError) as error:
        raise _invalid(f"crystal returned a response of another shape: {error}") from error


def _usage(response: CrystalResponse) -> Usage:
    """The tokens of a response that need not have any, since nothing of it is certain."""
    try:
        return msgspec.convert(msgspec.to_builtins(response.usage), Usage)
    except (TypeError, msgspec.ValidationError):
        return Usage()


def _invalid(message: str) -> CrystalError:
    return CrystalError("invalid_response", message)
