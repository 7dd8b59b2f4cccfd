"""Code that changes while runs are open: each run keeps to the version that it met first."""

from __future__ import annotations

import pytest

from journals import Journal, MemoryStore
from policies import (
    Action,
    Context,
    Ledger,
    PolicyRegistry,
    Step,
    UnsupportedVersion,
    action_result,
    replay,
    resume,
    run,
    run_registry,
)


class Programs:
    """One policy in several versions, which fails at its end until it is told not to."""

    def __init__(self) -> None:
        self.broken = True
        self.store = MemoryStore()

    async def journal(self) -> Journal:
        return await self.store.open("runs", run_registry())

    def registry(self, minimum: int | None = None, maximum: int = 1) -> PolicyRegistry:
        """The program without a marker, or with one between its two calls."""
        registry = PolicyRegistry()

        @registry.effect("do")
        async def do(action: Action, ctx: Context) -> list[Step]:
            return [action_result("do", {"what": action.payload["what"]})]

        @registry.orchestrator("root")
        async def root(action: Action, ctx: Context) -> list[Step]:
            await ctx.call(Action("do", {"what": "first"}))
            version = 1 if minimum is None else await ctx.version("which", minimum, maximum)
            await ctx.call(Action("do", {"what": f"second, version {version}"}))
            if self.broken:
                raise LookupError("a bug")
            if minimum is not None:
                assert await ctx.version("which", minimum, maximum) == version
            return [action_result("root", {"version": version})]

        return registry

    async def cut_off(self, registry: PolicyRegistry) -> None:
        with pytest.raises(LookupError):
            await run("root", {}, registry, journal=await self.journal(), run_id="r")

    async def finish(self, registry: PolicyRegistry) -> Ledger:
        self.broken = False
        ledger = await resume("r", registry, journal=await self.journal())
        assert await replay("r", registry, journal=await self.journal()) == ledger
        return ledger


async def test_a_new_run_gets_the_newest_version_and_keeps_it() -> None:
    programs = Programs()
    await programs.cut_off(programs.registry(1, 2))
    ledger = await programs.finish(programs.registry(1, 3))
    assert ledger[-1].payload == {"version": 2}


async def test_a_run_that_was_past_the_place_gets_the_oldest() -> None:
    programs = Programs()
    await programs.cut_off(programs.registry())
    await programs.cut_off(programs.registry(1, 2))
    ledger = await programs.finish(programs.registry(1, 2))
    assert ledger[-1].payload == {"version": 1}


async def test_a_run_that_was_not_there_yet_gets_the_newest() -> None:
    programs = Programs()
    registry = programs.registry()
    failing = PolicyRegistry()
    failing.effect("do")(registry["do"].function)  # type: ignore[type-var]

    @failing.orchestrator("root")
    async def root(action: Action, ctx: Context) -> list[Step]:
        await ctx.call(Action("do", {"what": "first"}))
        raise LookupError("a bug")

    await programs.cut_off(failing)
    ledger = await programs.finish(programs.registry(1, 2))
    assert ledger[-1].payload == {"version": 2}


async def test_a_version_that_the_code_no_longer_has_is_said() -> None:
    programs = Programs()
    await programs.cut_off(programs.registry(1, 2))
    with pytest.raises(UnsupportedVersion, match="version 2 of 'which', this code has 3 to 4"):
        await resume("r", programs.registry(3, 4), journal=await programs.journal())


async def test_without_a_journal_the_ledger_holds_the_version() -> None:
    programs = Programs()
    programs.broken = False
    whole = await run("root", {}, programs.registry(1, 2))
    for length in range(1, len(whole)):
        again = await run("root", {}, programs.registry(1, 3), whole[:length])
        expected = 2 if length > 1 else 3
        assert again[-1].payload == {"version": expected}
