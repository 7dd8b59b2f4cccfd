"""Gates that are served in the entity's own process: Python functions, with what the crystal is told about them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, cast

import msgspec

from branches.agents.gates import GateDefinition
from branches.agents.threads import in_thread
from branches.place import named

GateFunction = Callable[[Mapping[str, Any], "GateUse"], Awaitable[Any]]
_MAX_RESULT: Final = 16 * 1024 * 1024


class GateUse(msgspec.Struct, frozen=True, kw_only=True):
    """The circumstances of one gate call. `id` is the same when it is made again after a crash."""

    id: str
    session: str
    attempt: int = 1


class GateFailed(Exception):
    """Raised by a gate for a failure that the entity should read. `code` is one word."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Gate(msgspec.Struct, frozen=True):
    """A gate and the function behind it. An `idempotent` one is called again after a crash; any other is in doubt."""

    definition: GateDefinition
    function: GateFunction
    idempotent: bool = False

    @property
    def name(self) -> str:
        """The name that the entity calls."""
        return self.definition.name


def gate(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    ephemeral: bool = False,
    **dependencies: Any,
) -> Gate:
    """A gate made of a Python function: its signature becomes the schema, its docstring the description.

    The function may be async; one that is not runs in a thread. Parameters named in `dependencies` are bound now
    (CIRCLE-10) and are not shown to the crystal. A parameter of type `GateUse` is given the circumstances of the call.

        def read(path: str, *, root: Path) -> str:
            \"\"\"Read a text file.\"\"\"

        circle(gates=["done", gate(read, root=Path("/data"), idempotent=True)], wards=[Ward(max_turns=10)])

    Raises `TypeError` for a parameter without annotation or with one that nothing is known of, or a dependency that
    the function does not take.
    """
    from pydantic import TypeAdapter, ValidationError
    from pydantic.errors import PydanticUserError

    called = name or function.__name__
    try:
        hints = inspect.get_annotations(function, eval_str=True)
    except NameError as error:
        raise TypeError(f"gate {called!r}: a type of its parameters is not known: {error}") from None
    parameters = inspect.signature(function).parameters
    for unknown in dependencies.keys() - parameters.keys():
        raise TypeError(f"gate {called!r}: its function takes no {unknown!r}; it takes {', '.join(parameters)}")
    use = next((each for each, hint in hints.items() if hint is GateUse), None)
    shown = {each: parameters[each] for each in parameters if each not in dependencies and each != use}
    for each, parameter in shown.items():
        if each not in hints or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"gate {called!r}: give its parameter {each!r} a name and a type, or bind it")
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(_model(called, shown, hints))
        schema = {key: value for key, value in adapter.json_schema().items() if key not in ("title", "description")}
    except PydanticUserError as error:
        said = str(error).partition(". ")[0]
        raise TypeError(f"gate {called!r}: no schema can be made of a parameter's type: {said}") from error
    bound = partial(function, **dependencies)
    is_async = inspect.iscoroutinefunction(function)

    async def pass_through(arguments: Mapping[str, Any], circumstances: GateUse) -> Any:
        try:
            values: Any = adapter.validate_python(thaw(arguments))
        except ValidationError as error:
            raise GateFailed("bad_arguments", _told(called, error)) from None
        given = {each: getattr(values, each) for each in shown}
        if use is not None:
            given[use] = circumstances
        return await bound(**given) if is_async else await in_thread(partial(bound, **given))

    told = description if description is not None else inspect.getdoc(function) or ""
    return Gate(GateDefinition(called, told, _untitled(schema), ephemeral), pass_through, idempotent)


async def pass_gate(gate: Gate, arguments: Mapping[str, Any], use: GateUse) -> Any:
    """What the gate gives, as JSON has it.

    Raises `GateFailed`, also for whatever else the function raises (CIRCLE-5, D-011: this is the boundary to code that
    is not ours, and its errors are for the entity to see) and for a result that JSON cannot hold.
    """
    try:
        result = await gate.function(arguments, use)
    except GateFailed:
        raise
    except Exception as error:
        raise GateFailed("failed", _message(error)) from error
    except SystemExit as error:  # a task that raises it would end the event loop
        raise GateFailed("failed", f"SystemExit: {error}") from error
    try:
        plain = msgspec.to_builtins(result, enc_hook=_as_json)
        encoded = msgspec.json.encode(plain)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise GateFailed("bad_result", _readable(f"the gate gave what JSON cannot hold: {error}")) from error
    if len(encoded) > _MAX_RESULT:
        raise GateFailed("bad_result", f"the gate gave {len(encoded)} bytes, more than the {_MAX_RESULT} allowed")
    return msgspec.json.decode(encoded)


def thaw(value: Any) -> Any:
    """A frozen payload as plain dicts and lists."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, tuple | list):
        return [thaw(item) for item in cast("list[Any]", value)]
    return value


def _model(name: str, shown: Mapping[str, inspect.Parameter], hints: Mapping[str, Any]) -> Any:
    from pydantic import ConfigDict, create_model

    fields: dict[str, Any] = {
        each: (hints[each], ... if parameter.default is parameter.empty else parameter.default)
        for each, parameter in shown.items()
    }
    return create_model(name, __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=False), **fields)


def _told(name: str, error: Any) -> str:
    problems = "; ".join(
        f"{'.'.join(str(part) for part in each['loc']) or 'arguments'}: {each['msg']}" for each in error.errors()
    )
    return f"these arguments do not fit {name}: {problems}"


def _untitled(schema: Any) -> Any:
    """The schema without the titles that only repeat the names."""
    if isinstance(schema, dict):
        items = cast("dict[str, Any]", schema)
        return {key: _untitled(value) for key, value in items.items() if key != "title" or not isinstance(value, str)}
    if isinstance(schema, list):
        return [_untitled(each) for each in cast("list[Any]", schema)]
    return schema


def _as_json(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"{type(value).__name__} is not a JSON value")
    return dump(mode="json")


def _message(error: Exception) -> str:
    """What it says; with its type where that is no sentence, as with a `KeyError`."""
    said = _readable(named(error))
    return said if isinstance(error, KeyError) else said.removeprefix(f"{type(error).__name__}: ")


def _readable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
