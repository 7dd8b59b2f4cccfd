"""The registry: names, kinds and descriptions of policies."""

from __future__ import annotations

import pytest

from policies import Action, Context, PolicyKind, PolicyRegistry, Retry, Step, UnknownPolicy


async def search(action: Action, ctx: Context) -> list[Step]:
    """Search the web."""
    return []


def test_a_policy_is_registered_with_its_docstring_as_description() -> None:
    registry = PolicyRegistry()
    schema = {"type": "object"}
    assert registry.register("search", idempotent=True, input_schema=schema)(search) is search
    info = registry["search"]
    assert (info.kind, info.idempotent, info.description, info.input_schema) == (
        PolicyKind.EFFECT,
        True,
        "Search the web.",
        schema,
    )
    assert "search" in registry
    assert registry.names == ("search",)


def test_an_awaited_policy_has_no_function_of_its_own() -> None:
    registry = PolicyRegistry()
    registry.register_awaited("ask", timeout_s=5, description="Ask a human.")
    assert registry["ask"].function is None
    assert registry["ask"].timeout_s == 5


def test_a_name_is_taken_once() -> None:
    registry = PolicyRegistry()
    registry.register("search")(search)
    with pytest.raises(ValueError, match="'search' is registered already"):
        registry.register("search")(search)


def test_an_unknown_name_is_said_with_the_known_ones() -> None:
    registry = PolicyRegistry()
    registry.register("search")(search)
    with pytest.raises(UnknownPolicy, match="registered are: search"):
        registry["serch"]


def test_decorators_are_written_with_parentheses() -> None:
    registry = PolicyRegistry()
    for decorator in (registry.policy, registry.effect, registry.orchestrator):
        with pytest.raises(TypeError, match="parentheses"):
            decorator(search)  # type: ignore[arg-type]
    assert registry.names == ()


def test_each_kind_has_a_decorator_and_a_name_of_its_own_is_enough() -> None:
    registry = PolicyRegistry()
    registry.effect(idempotent=True, retry=Retry(on=(OSError,)))(search)
    registry.orchestrator("leads", actions=["search"], description="Lead.")(search)
    assert (registry["search"].kind, registry["search"].idempotent) == (PolicyKind.EFFECT, True)
    assert registry["search"].retry == Retry(on=(OSError,))
    assert (registry["leads"].kind, registry["leads"].actions) == (PolicyKind.ORCHESTRATOR, {"search"})
    assert registry["leads"].description == "Lead."


def test_the_engine_keeps_names_for_itself() -> None:
    with pytest.raises(ValueError, match="'@sleep'"):
        PolicyRegistry().effect("@sleep")(search)
