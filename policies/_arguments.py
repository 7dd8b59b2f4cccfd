"""What a policy takes: a JSON Schema for those who call it, and a check of what they call it with."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from policies._action import Action
from policies._errors import InvalidPayload
from policies._step import Step, action_result, error_result

if TYPE_CHECKING:
    from policies._context import Context
    from policies._registry import Policy


class ArgumentsInvalid(ValueError):
    """A payload that does not fit what the policy takes; the message says where."""


class Arguments(Protocol):
    """The payload of a policy as a type."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """Its JSON Schema, an object."""
        ...

    def read(self, payload: Mapping[str, Any]) -> Any:
        """The payload as this type. Raises `ArgumentsInvalid`."""
        ...


class StructArguments:
    """A msgspec struct, or a dataclass or typed dict, as a policy's payload."""

    def __init__(self, model: type[Any]) -> None:
        self._model: Any = model
        (schema,), components = msgspec.json.schema_components([model], ref_template="#/$defs/{name}")
        name = schema.get("$ref", "").removeprefix("#/$defs/")
        schema = {key: value for key, value in components.get(name, schema).items() if key != "title"}
        if f"#/$defs/{name}" not in str((schema, components)):  # unless it holds others of its own kind
            components.pop(name, None)
        self.schema: Mapping[str, Any] = {**schema, "$defs": components} if components else schema

    def __repr__(self) -> str:
        return f"<StructArguments {self._model.__name__}>"

    def read(self, payload: Mapping[str, Any]) -> Any:
        """See `Arguments.read`."""
        try:
            return msgspec.convert(payload, self._model)
        except msgspec.ValidationError as error:
            raise ArgumentsInvalid(str(error)) from error


class PydanticArguments:
    """A pydantic model as a policy's payload. Nothing here imports pydantic: who has a model has done so."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.schema: Mapping[str, Any] = model.model_json_schema()

    def __repr__(self) -> str:
        return f"<PydanticArguments {self._model.__name__}>"

    def read(self, payload: Mapping[str, Any]) -> Any:
        """See `Arguments.read`."""
        try:
            return self._model.model_validate_json(msgspec.json.encode(payload))
        except ValueError as error:  # pydantic's ValidationError is one
            raise ArgumentsInvalid(" ".join(str(error).split())) from error


def arguments_of(model: Any) -> Arguments:
    """What a model takes. Raises `TypeError` for what is no model."""
    if hasattr(model, "model_json_schema"):
        return PydanticArguments(model)
    if not isinstance(model, type):
        raise TypeError(f"{model!r} is no model; give a msgspec.Struct, a dataclass or a pydantic model")
    return StructArguments(model)


def adapt(name: str, function: Callable[..., Any], model: Any) -> tuple[Policy, Arguments | None]:
    """A function of one of three shapes as a policy, with what it takes.

    `(action, ctx)` is a policy already; `model` says what its payload is, if given. `(arguments)` or `(arguments, ctx)`
    with a model as annotation gets its payload as that model. Any other gets the fields of its payload as arguments of
    the same name, and the context where it has a `ctx`. The last two may give steps, or any JSON value for an
    `action_result`.
    """
    if model is None and inspect.ismethod(function) and _is_policy_method(function.__func__):
        return cast("Policy", function), None
    parameters = dict(inspect.signature(function, follow_wrapped=False).parameters)
    if _is_policy(list(parameters.values())):
        return cast("Policy", function), None if model is None else arguments_of(model)
    if model is not None:
        raise TypeError(f"{name}: a `payload` model goes with a policy (action, ctx); here the signature says it")
    hints = typing.get_type_hints(function, include_extras=True, localns=_names())
    takes_context = parameters.pop("ctx", None) is not None
    whole = _whole_payload(parameters, hints)
    arguments = arguments_of(_struct(name, parameters, hints) if whole is None else whole)

    async def policy(action: Action, ctx: Context) -> Sequence[Step]:
        read = arguments.read(action.payload)
        given = {next(iter(parameters)): read} if whole is not None else msgspec.structs.asdict(read)
        if takes_context:
            given["ctx"] = ctx
        return _as_steps(name, await cast("Awaitable[Any]", function(**given)))

    return policy, arguments


@lru_cache(maxsize=1000)
def _is_policy_method(function: Callable[..., Any]) -> bool:
    """Methods are looked at once: an episode registers its own each time it begins."""
    _, *parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    return _is_policy(parameters)


def _is_policy(parameters: Sequence[inspect.Parameter]) -> bool:
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return True
    return len(parameters) == 2 and (
        [parameter.name for parameter in parameters] == ["action", "ctx"]
        or parameters[0].annotation in (Action, "Action")
    )


def _names() -> dict[str, Any]:
    """What annotations of policies may name although their module imports it for type checkers only."""
    from policies._context import Context

    return {"Context": Context, "Step": Step, "Action": Action}


def _whole_payload(parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, Any]) -> Any:
    if len(parameters) != 1:
        return None
    hint: Any = hints.get(next(iter(parameters)))
    if hasattr(hint, "model_json_schema") or (inspect.isclass(hint) and issubclass(hint, msgspec.Struct)):
        return cast("Any", hint)
    return None


def _struct(name: str, parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, Any]) -> type[msgspec.Struct]:
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in parameters.values():
        hint = hints.get(parameter.name, Any)
        has_default = parameter.default is not inspect.Parameter.empty
        fields.append((parameter.name, hint, parameter.default) if has_default else (parameter.name, hint))
    return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)


def _as_steps(name: str, given: Any) -> Sequence[Step]:
    if isinstance(given, Step):
        return [given]
    if isinstance(given, list | tuple):
        items = cast("Sequence[Any]", given)
        if items and all(isinstance(item, Step) for item in items):
            return items
    try:
        return [action_result(name, cast("Any", given) if isinstance(given, Mapping) else {"result": given})]
    except InvalidPayload as error:
        return [error_result(name, "bad_result", f"what it gave cannot be recorded: {error.reason}")]
