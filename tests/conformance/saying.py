"""Which mediums a case allows, and its gate calls said in code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from tests.conformance.case import LANGUAGES, MEDIUMS, Call, Case, Circle, Gate, GateCalled, Invocation, Response, Setup

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_FAILING = ("throw", "hang", "unserialisable")


class NotSayable(Exception):
    """Gate calls that would mean something else in code: why."""


def mediums(case: Case) -> tuple[str, ...]:
    """Every medium that the case allows. Raises `NotSayable` if that is none.

    A case with code has the languages that its code is in. Any other allows all mediums, unless its circle names some
    or its calls cannot be said in code.
    """
    setup = case.setup
    assert setup is not None
    circle = setup.circle
    languages = [set(_languages(response)) for response in _responses(setup) if response.code is not None]
    allowed = set(MEDIUMS) if circle is None or circle.type is None else set(LANGUAGES)
    if circle is not None and circle.type == "tools":
        allowed = {"tools"}
    if circle is not None and circle.medium is not None:
        allowed &= {circle.medium}
    if languages:
        allowed &= set.intersection(*languages)
    elif allowed - {"tools"}:
        try:
            _require_sayable(case, setup)
        except NotSayable:
            allowed &= {"tools"}
    if not allowed:
        raise NotSayable("no medium allows this case")
    return tuple(medium for medium in MEDIUMS if medium in allowed)


def code_of(calls: list[Call], circle: Circle, language: str) -> str:
    """The same calls in code, one a line, each result shown. Raises `NotSayable`."""
    return "\n".join(_line(call, circle, language, last=call is calls[-1]) for call in calls)


def _line(call: Call, circle: Circle, language: str, *, last: bool) -> str:
    if call.id is not None or call.arguments is not None:
        raise NotSayable("code has neither ids nor arguments that are not JSON")
    args = {} if call.args is UNSET else call.args
    if not isinstance(args, dict) or not _NAME.fullmatch(call.gate):
        raise NotSayable("no function is called so")
    gate = next((each for each in circle.gates if _name(each) == call.gate), None)
    if gate is None:
        raise NotSayable(f"code has no {call.gate!r}: this would be a failure of the language")
    removed = any(call.gate == ward.remove_gate or call.gate in ward.remove_gate for ward in circle.wards)
    may_fail = removed or (isinstance(gate, Gate) and gate.behavior in _FAILING)
    if may_fail and not last:
        raise NotSayable("an error would keep the calls that follow from being made")
    if isinstance(gate, Gate) and gate.ephemeral:
        raise NotSayable("what code shows of an ephemeral result is its own")
    if language == "javascript":
        said = f"{call.gate}({json.dumps(args) if args else ''})"
        return f"{said};" if call.gate == "done" else f"print({said});"
    if not all(_NAME.fullmatch(name) and "." not in name for name in args):
        raise NotSayable("these arguments have no names in Python")
    said = f"{call.gate}({', '.join(f'{name}={_literal(value)}' for name, value in args.items())})"
    return said if call.gate == "done" else f"print({said})"


def _literal(value: Any) -> str:
    """A JSON value as Python writes it."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_literal(key)}: {_literal(each)}' for key, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _require_sayable(case: Case, setup: Setup) -> None:
    """Raises `NotSayable` if anything in the case would mean something else in code."""
    if setup.circle is None:
        raise NotSayable("there is no circle")
    expect = case.expect
    assert expect is not None
    if expect.crystal_received_tools is not UNSET:
        raise NotSayable("the tools of a code medium are one")
    for turn in () if expect.loom is UNSET or expect.loom.turns is UNSET else expect.loom.turns:
        for called in () if turn.gate_calls is UNSET else turn.gate_calls:
            if isinstance(called, GateCalled) and called.tool_call_id is not UNSET:
                raise NotSayable("a gate call in code has no id of the provider's")
    for invocation in _invocations(case):
        if invocation.tools is not UNSET:
            raise NotSayable("the tools of a code medium are one")
        for message in (
            *(() if invocation.messages is UNSET else invocation.messages),
            *(each for each in (invocation.first_message, invocation.last_message) if each is not UNSET),
        ):
            if message.role not in ("system", "user"):
                raise NotSayable("what code gives back is not word for word what its gates gave")
    for crystal in setup.crystals.values():
        if crystal is not None and crystal.raw_response is not None and _calls_in(crystal.raw_response):
            raise NotSayable("a provider's response stands as it is")
    for response in _responses(setup):
        for language in () if response.native else LANGUAGES:
            code_of(response.tool_calls or [], setup.circle, language)


def _invocations(case: Case) -> Iterator[Invocation]:
    assert case.expect is not None
    for described in case.expect.invocations.values():
        if not isinstance(described, int):
            yield from described


def _responses(setup: Setup) -> Iterator[Response]:
    for crystal in setup.crystals.values():
        yield from () if crystal is None else crystal.responses


def _calls_in(raw: dict[str, Any]) -> bool:
    return any(choice["message"].get("tool_calls") for choice in raw.get("choices", ()))


def _languages(response: Response) -> tuple[str, ...]:
    return tuple(response.code) if isinstance(response.code, dict) else ("javascript",)


def _name(gate: str | Gate) -> str:
    return gate if isinstance(gate, str) else gate.name
