"""What every medium does, said once and held by both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UNSET, structs

from branches.agents.medium import CodeEnding, GateValue, Limits, Medium, Seed
from tests.leaves.mediums.entities import BRIEF, GATES, LIMITS, SEED, Circle, Entity, gate

Say = Callable[[str, str], str]


class TestVariables:
    async def test_stay_for_the_next_turn(self, entity: Entity, say: Say) -> None:
        await entity(say("var x = 1; let y = 2; const z = 3; function f() { return x + y + z }", "x = 1\ny = 2\nz = 3"))
        assert await entity.value(say("f() + x", "x + y + z + x")) == 7

    async def test_stay_after_an_error(self, entity: Entity, say: Say) -> None:
        outcome = await entity(say("var x = 1; throw new Error('no')", "x = 1\nraise ValueError('no')"))
        assert outcome.ending is CodeEnding.RAISED
        assert await entity.value("x") == 1

    async def test_stay_after_done(self, entity: Entity, say: Say) -> None:
        await entity(say("let x = 1; done(2)", "x = 1\ndone(2)"))
        assert await entity.value("x") == 1

    async def test_of_one_entity_are_not_anothers(self, medium: Medium, entity: Entity, say: Say) -> None:
        await entity(say("secret = globalThis.secret = 1; Object.prototype.leak = 1; ", "secret = 1"))
        other = Entity(await medium.open(GATES, LIMITS), Circle())
        assert (await other("secret")).ending is CodeEnding.RAISED
        assert await other.value(say("String({}.leak)", "'undefined'")) == "undefined"


class TestValues:
    async def test_of_the_last_expression(self, entity: Entity, say: Say) -> None:
        assert await entity.value(say("({a: [1, 'b', null, true]})", "{'a': [1, 'b', None, True]}")) == {
            "a": [1, "b", None, True]
        }

    async def test_absent_where_there_is_none(self, entity: Entity, say: Say) -> None:
        assert await entity.value(say("var x = 1", "x = 1")) is UNSET

    async def test_as_text_where_json_cannot_hold_them(self, entity: Entity, say: Say) -> None:
        outcome = await entity(say("new Map([[1, 2]])", "{1, 2}"))
        assert outcome.value_is_text
        assert outcome.value == say("Map {1 => 2}", "{1, 2}")

    async def test_circular_ones_are_shown(self, entity: Entity, say: Say) -> None:
        outcome = await entity(say("var a = [1]; a.push(a); a", "a = [1]\na.append(a)\na"))
        assert outcome.ending is CodeEnding.COMPLETED

    async def test_huge_numbers_are_shown(self, entity: Entity, say: Say) -> None:
        outcome = await entity(say("10n ** 30n", "10 ** 30"))
        assert outcome.value == say("1000000000000000000000000000000n", "1000000000000000000000000000000")

    async def test_nested_deeply_are_shown(self, entity: Entity, say: Say) -> None:
        code = say("var a = []; for (let i = 0; i < 1000; i++) a = [a]; a", "a = []\nfor i in range(1000): a = [a]\na")
        outcome = await entity(code)
        assert outcome.ending is CodeEnding.COMPLETED
        assert outcome.value_is_text

    async def test_are_cut(self, entity: Entity, say: Say) -> None:
        outcome = await entity(say("'x'.repeat(1e6)", "'x' * 10**6"))
        assert outcome.value_is_text
        assert outcome.output_cut
        assert len(outcome.value) == LIMITS.output_chars


class TestOutput:
    async def test_is_everything_printed_in_order(self, entity: Entity, say: Say) -> None:
        outcome = await entity(
            say("print('a', 1); console.log({b: [2]}); console.error('c')", "print('a', 1)\nprint({'b': [2]})")
        )
        assert outcome.output == say("a 1\n{b: [2]}\nc\n", "a 1\n{'b': [2]}\n")

    async def test_stands_beside_an_error(self, entity: Entity, say: Say) -> None:
        outcome = await entity(say("print('before'); throw 1", "print('before')\n1/0"))
        assert (outcome.output, outcome.ending) == ("before\n", CodeEnding.RAISED)

    async def test_is_cut(self, entity: Entity, say: Say) -> None:
        outcome = await entity(say("print('x'.repeat(1e7))", "print('x' * 10**7)"))
        assert outcome.output_cut
        assert outcome.output == "x" * LIMITS.output_chars

    async def test_without_end_is_cut_and_stopped(self, brief: Entity, say: Say) -> None:
        outcome = await brief(say("for (;;) print('y'.repeat(9999))", "while True: print('y' * 9999)"))
        assert outcome.ending is CodeEnding.TIMED_OUT
        assert outcome.output_cut
        assert len(outcome.output) == LIMITS.output_chars

    async def test_with_half_a_surrogate_pair_is_text(self, entity: Entity, say: Say) -> None:
        outcome = await entity(say("print('\\ud800'); '\\udfff'", "print('\\ud800')\n'\\udfff'"))
        assert (outcome.output, outcome.value) == ("\ufffd\n", "\ufffd")


class TestErrors:
    async def test_say_name_message_and_place(self, entity: Entity, say: Say) -> None:
        outcome = await entity(say("\n\n  throw new TypeError('no')", "\n\nraise TypeError('no')"))
        assert outcome.error is not None
        assert (outcome.error.name, outcome.error.message) == ("TypeError", "no")
        assert (outcome.error.where or "").startswith("line 3")

    async def test_code_that_cannot_be_read(self, entity: Entity) -> None:
        outcome = await entity("x = = 1")
        assert outcome.error is not None
        assert outcome.error.name == "SyntaxError"

    async def test_code_that_is_too_long(self, entity: Entity, say: Say) -> None:
        outcome = await entity(say("//", "#") + "x" * 10_000_000)
        assert outcome.ending is CodeEnding.RAISED

    async def test_code_with_half_a_surrogate_pair(self, entity: Entity) -> None:
        outcome = await entity("'\ud800'")
        assert outcome.ending in (CodeEnding.COMPLETED, CodeEnding.RAISED)

    async def test_two_turns_at_once_are_a_mistake(self, entity: Entity) -> None:
        turn = asyncio.ensure_future(entity("slow()"))
        await entity.circle.entered.wait()
        with pytest.raises(RuntimeError):
            await entity("1")
        entity.circle.go_on.set()
        await turn


class TestGates:
    @pytest.mark.parametrize(
        ("javascript", "python", "arguments"),
        [
            ("read('a')", "read('a')", {"path": "a"}),
            ("read('a', 3)", "read('a', 3)", {"path": "a", "limit": 3}),
            ("read({path: 'a', limit: 3})", "read({'path': 'a', 'limit': 3})", {"path": "a", "limit": 3}),
            ("read('a', {limit: 3})", "read('a', limit=3)", {"path": "a", "limit": 3}),
            ("read({other: 1})", "read({'other': 1})", {"path": {"other": 1}}),
            ("read(['a'])", "read(['a'])", {"path": ["a"]}),
            ("read('a', undefined)", "read(path='a')", {"path": "a"}),
            ("read()", "read()", {}),
            ("read(null)", "read(None)", {"path": None}),
        ],
    )
    async def test_take_arguments(
        self, entity: Entity, say: Say, javascript: str, python: str, arguments: dict[str, Any]
    ) -> None:
        await entity.value(say(javascript, python))
        assert entity.circle.calls == [("read", arguments)]

    async def test_refuse_too_many_arguments(self, entity: Entity) -> None:
        outcome = await entity("read(1, 2, 3)")
        assert outcome.error is not None
        assert outcome.error.name == "TypeError"
        assert not entity.circle.calls

    async def test_refuse_what_json_cannot_hold(self, entity: Entity, say: Say) -> None:
        outcome = await entity(say("var a = []; a.push(a); read(a)", "read({1, 2})"))
        assert outcome.error is not None
        assert outcome.error.name == "TypeError"
        assert not entity.circle.calls

    async def test_refuse_more_than_fits(self, medium: Medium, say: Say) -> None:
        circle = Circle()
        sandbox = await medium.open(GATES, structs.replace(LIMITS, gate_chars=1000))
        outcome = await sandbox.run(say("read('x'.repeat(2000))", "read('x' * 2000)"), circle, SEED)
        assert outcome.ending is CodeEnding.RAISED
        assert not circle.calls

    async def test_give_values_to_the_code(self, entity: Entity, say: Say) -> None:
        assert (
            await entity.value(
                say("const r = echo([1, {a: 'é'}]); r[1].a + r[0]", "r = echo([1, {'a': 'é'}])\nr[1]['a'] + str(r[0])")
            )
            == "é1"
        )

    async def test_in_namespaces(self, entity: Entity) -> None:
        await entity("fs.read_text('a')")
        assert entity.circle.calls == [("fs.read_text", {"path": "a"})]

    async def test_can_be_waited_for(self, entity: Entity) -> None:
        assert await entity.value("await echo(1)") == 1

    async def test_raise_errors_that_code_can_catch(self, entity: Entity, say: Say) -> None:
        code = say(
            "try { fail('ValueError', 'no such') } catch (e) { e.name + ': ' + e.message }",
            "try:\n  fail('ValueError', 'no such')\nexcept ValueError as e:\n  said = 'ValueError: ' + str(e)\nsaid",
        )
        assert await entity.value(code) == "ValueError: no such"

    async def test_raise_errors_of_any_name(self, entity: Entity) -> None:
        outcome = await entity("fail('unknown_gate', 'no such')")
        assert outcome.error is not None
        assert "unknown_gate: no such" in f"{outcome.error.name}: {outcome.error.message}"

    async def test_that_the_circle_does_not_have_are_not_there(self, entity: Entity) -> None:
        outcome = await entity("launch('x')")
        assert outcome.error is not None
        assert "not defined" in outcome.error.message
        assert not entity.circle.calls

    async def test_that_were_taken_away_are_not_available(self, medium: Medium, entity: Entity) -> None:
        await entity("call_agent('x')")
        snapshot = await entity.sandbox.snapshot()
        fewer = [g for g in GATES if g.name != "call_agent"]
        later = Entity(await medium.open(fewer, LIMITS, snapshot), Circle())
        outcome = await later("call_agent('x')")
        assert outcome.error is not None
        assert "not available" in outcome.error.message
        assert not later.circle.calls

    async def test_many_calls_at_once_are_one(self, entity: Entity, say: Say) -> None:
        await entity(
            say(
                "call_agent_batch([{intent: 'a'}, {intent: 'b'}])",
                "call_agent_batch([{'intent': 'a'}, {'intent': 'b'}])",
            )
        )
        assert entity.circle.calls == [("call_agent_batch", {"calls": [{"intent": "a"}, {"intent": "b"}]})]

    async def test_put_something_else_in_their_place_only_for_a_turn(self, entity: Entity) -> None:
        assert await entity.value("read = 3\ndone = 4\nfs = 5\nread + fs") == 8
        await entity("read('a'); fs.read_text('b'); done(1)")
        assert [name for name, _ in entity.circle.calls] == ["read", "fs.read_text", "done"]

    async def test_may_summon_another_sandbox_of_the_medium(self, medium: Medium, entity: Entity, say: Say) -> None:
        async def child(depth: int) -> GateValue:
            inner = Circle()
            inner.answer = lambda gate, arguments: child(arguments["intent"])
            sandbox = await medium.open(GATES, LIMITS)
            code = f"call_agent({depth + 1}) + 1" if depth < 30 else "1"
            outcome = await sandbox.run(code, inner, SEED)
            await sandbox.close()
            return GateValue(outcome.value)

        entity.circle.answer = lambda gate, arguments: child(arguments["intent"])
        assert await entity.value("call_agent(0)") == 31

    async def test_what_the_host_raises_comes_out_and_undoes_the_turn(self, entity: Entity, say: Say) -> None:
        def broken(gate: str, arguments: object) -> GateValue:
            raise LookupError("our own mistake")

        await entity(say("var x = 1", "x = 1"))
        entity.circle.answer = broken
        code = say(
            "try { x = 2; echo(1) } catch (e) {} finally { x = 3 }", "try:\n  x = 2\n  echo(1)\nfinally:\n  x = 3"
        )
        with pytest.raises(LookupError, match="our own mistake"):
            await entity(code)
        assert await entity.value("x") == 1


class TestDone:
    async def test_ends_the_turn_uncatchably(self, entity: Entity, say: Say) -> None:
        await entity(say("var x = 1", "x = 1"))
        code = say(
            "try { done(42); x = 2 } catch (e) { x = 3 } finally { x = 4; read('a') }",
            "try:\n  done(42)\n  x = 2\nexcept BaseException:\n  x = 3\nfinally:\n  x = 4\n  read('a')",
        )
        outcome = await entity(code)
        assert (outcome.ending, outcome.error) == (CodeEnding.FINISHED, None)
        assert entity.circle.calls == [("done", {"answer": 42})]
        assert await entity.value("x") == 1

    async def test_has_another_name(self, entity: Entity, say: Say) -> None:
        outcome = await entity(say("submit_answer({a: 1})", "submit_answer({'a': 1})"))
        assert outcome.ending is CodeEnding.FINISHED
        assert entity.circle.calls == [("done", {"answer": {"a": 1}})]

    async def test_from_deep_within(self, entity: Entity, say: Say) -> None:
        code = say(
            "[3, 1].forEach(x => { for (const y of [1, 2]) { try { done(x) } finally { read('a') } } })",
            "def f(x):\n  try:\n    done(x)\n  finally:\n    read('a')\nfor x in [3, 1]: f(x)",
        )
        assert (await entity(code)).ending is CodeEnding.FINISHED
        assert entity.circle.calls == [("done", {"answer": 3})]

    async def test_after_a_gate_that_took_its_time(self, entity: Entity, say: Say) -> None:
        turn = asyncio.ensure_future(
            entity(say("var x = 1; slow(); x = 2; done(1); x = 3", "x = 1\nslow()\nx = 2\ndone(1)\nx = 3"))
        )
        await entity.circle.entered.wait()
        entity.circle.go_on.set()
        assert (await turn).ending is CodeEnding.FINISHED
        assert await entity.value("x") == 2


class TestClock:
    async def test_time_and_chance_come_from_the_seed(self, medium: Medium, entity: Entity, say: Say) -> None:
        code = say(
            "[Date.now() / 1000, new Date().toISOString(), Math.random(), Math.random()]",
            "import time, datetime\nfrom random import random\n"
            "[time.time(), datetime.datetime.now().isoformat(), random(), random()]",
        )
        other = Entity(await medium.open(GATES, LIMITS), Circle())
        first, again = await entity.value(code), await other.value(code)
        assert first == again
        assert first[0] == SEED.now
        assert first[1].startswith("2023-11-14T22:13:20")
        different = Entity(await medium.open(GATES, LIMITS), Circle())
        assert (await different(code, Seed(SEED.now, 8))).value[2:] != first[2:]

    async def test_a_gates_reply_moves_the_clock(self, entity: Entity, say: Say) -> None:
        entity.circle.answer = lambda gate, arguments: GateValue(None, now=SEED.now + 60)
        assert (
            await entity.value(say("echo(1); Date.now() / 1000", "import time\necho(1)\ntime.time()")) == SEED.now + 60
        )


class TestLimits:
    async def test_a_loop_without_end_is_stopped(self, brief: Entity, say: Say) -> None:
        await brief(say("var x = 1", "x = 1"))
        outcome = await brief(say("try { for (;;); } catch (e) { x = 2 } finally { x = 3 }", "while True: pass"))
        assert outcome.ending is CodeEnding.TIMED_OUT
        assert await brief.value("x") == 1

    async def test_recursion_without_end_is_stopped(self, entity: Entity, say: Say) -> None:
        await entity(say("var x = 1", "x = 1"))
        outcome = await entity(say("(function f() { return f() + 1 })()", "def f(): return f() + 1\nf()"))
        assert outcome.ending in (CodeEnding.RAISED, CodeEnding.CRASHED)
        assert outcome.error is not None
        assert outcome.error.name in ("RangeError", "RecursionError")
        assert await entity.value("x") == 1

    @pytest.mark.parametrize(
        ("javascript", "python"),
        [
            ("var s = 'x'; for (;;) s += s", "s = 'x'\nwhile True: s += s"),
            (
                "var a = []; for (;;) a.push(new Array(1000).fill(a.length))",
                "a = []\nwhile True: a.append([len(a)] * 1000)",
            ),
            ("new ArrayBuffer(2 ** 31)", "bytes(2 ** 31)"),
            ("'x'.repeat(2 ** 28)", "'x' * 2 ** 40"),
            (
                "var m = new Map(); for (let i = 0; ; i++) m.set(i, {i})",
                "m = {}\ni = 0\nwhile True:\n  m[i] = [i]\n  i += 1",
            ),
        ],
    )
    async def test_allocation_without_end_is_stopped(
        self, medium: Medium, say: Say, javascript: str, python: str
    ) -> None:
        entity = Entity(await medium.open(GATES, LIMITS), Circle())
        await entity(say("var x = 1", "x = 1"))
        outcome = await entity(say(javascript, python))
        assert outcome.ending in (CodeEnding.OUT_OF_MEMORY, CodeEnding.RAISED)
        assert await entity.value("x") == 1

    async def test_memory_that_is_full_leaves_room_for_a_next_turn(self, medium: Medium, say: Say) -> None:
        entity = Entity(await medium.open(GATES, LIMITS), Circle())
        await entity(say("var x = 1", "x = 1"))
        for size in (2**16, 2**12, 2**8):
            await entity(
                say(
                    f"var a = globalThis.a ?? []; try {{ for (;;) a.push('y'.repeat({size}) + a.length) }} catch {{}}",
                    f"a = []\ntry:\n  while True: a.append('y' * {size} + str(len(a)))\nexcept MemoryError: pass",
                )
            )
        assert await entity.value(say("var a = null; x", "a = None\nx")) == 1

    async def test_the_time_of_a_gate_is_not_the_codes_own(self, medium: Medium, say: Say) -> None:
        entity = Entity(await medium.open(GATES, structs.replace(LIMITS, cpu_s=1.0)), Circle())

        async def nap(_gate: str, _arguments: object) -> GateValue:
            await asyncio.get_running_loop().run_in_executor(None, lambda: asyncio.run(asyncio.sleep(1.5)))
            return GateValue(5)

        entity.circle.answer = lambda gate, arguments: nap(gate, arguments)
        assert await entity.value("echo(1)") == 5

    async def test_a_gate_that_hangs_ends_with_the_turns_whole_time(self, medium: Medium, say: Say) -> None:
        entity = Entity(await medium.open(GATES, structs.replace(LIMITS, wall_s=2.0)), Circle())
        outcome = await entity(
            say("var x = 1; try { slow() } finally { x = 2 }", "x = 1\ntry:\n  slow()\nfinally:\n  x = 2")
        )
        assert outcome.ending is CodeEnding.TIMED_OUT
        assert entity.circle.entered.is_set()
        longer = await medium.open(GATES, LIMITS, await entity.sandbox.snapshot())
        assert await Entity(longer, Circle()).value("x") == 1


class TestCancelling:
    async def test_while_it_computes(self, medium: Medium, say: Say) -> None:
        entity = Entity(await medium.open(GATES, structs.replace(LIMITS, cpu_s=30.0)), Circle())
        await entity(say("var x = 1", "x = 1"))
        began = asyncio.ensure_future(entity(say("x = 2; read('a'); for (;;);", "x = 2\nread('a')\nwhile True: pass")))
        await entity.circle.called(1)
        began.cancel()
        with pytest.raises(asyncio.CancelledError):
            await began
        assert await entity.value("x") == 1

    async def test_while_a_gate_is_out(self, entity: Entity, say: Say) -> None:
        await entity(say("var x = 1", "x = 1"))
        began = asyncio.ensure_future(entity(say("x = 2; slow()", "x = 2\nslow()")))
        await entity.circle.entered.wait()
        began.cancel()
        with pytest.raises(asyncio.CancelledError):
            await began
        assert await entity.value("x") == 1


class TestMany:
    async def test_hundreds_at_once_and_stuck_ones_among_them(self, medium: Medium, say: Say) -> None:
        stuck = [await medium.open(GATES, BRIEF) for _ in range(4)]
        others = [await medium.open(GATES, LIMITS) for _ in range(200)]
        loops = [asyncio.ensure_future(s.run(say("for (;;);", "while True: pass"), Circle(), SEED)) for s in stuck]
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0)
                ticks += 1

        ticking = asyncio.ensure_future(tick())
        code = say(
            "let n = echo(20); let t = 0; for (let i = 0; i <= n; i++) t += i; t", "t = sum(range(echo(20) + 1))\nt"
        )
        outcomes = await asyncio.gather(*(sandbox.run(code, Circle(), SEED) for sandbox in others))
        ticking.cancel()
        assert [outcome.value for outcome in outcomes] == [210] * 200
        assert ticks > 1
        assert {(await loop).ending for loop in loops} == {CodeEnding.TIMED_OUT}

    async def test_that_wait_in_gates_keep_none_of_the_others(self, medium: Medium) -> None:
        circle = Circle()
        waiting = [await medium.open(GATES, LIMITS) for _ in range(60)]
        turns = [asyncio.ensure_future(sandbox.run("slow()\n7", circle, SEED)) for sandbox in waiting]
        await circle.called(60)
        assert await Entity(await medium.open(GATES, LIMITS), Circle()).value("echo(1)") == 1
        circle.go_on.set()
        assert [outcome.value for outcome in await asyncio.gather(*turns)] == [7] * 60


class TestDescription:
    def test_names_every_gate_and_its_arguments(self, medium: Medium) -> None:
        text = medium.describe(GATES)
        for piece in (
            "- read(path, limit?): what read does",
            "- fs.read_text(path)",
            "- done(answer)",
            "submit_answer",
        ):
            assert piece in text

    async def test_hostile_names_are_reached_by_what_it_says(self, medium: Medium, entity: Entity, say: Say) -> None:
        names = [
            "get-weather",
            "print",
            "__proto__",
            "constructor",
            "eval",
            "class",
            "globalThis",
            "1st",
            "a b",
            "a_b",
            "submit_answer",
            "fs",
            "fs.read",
            "len",
            "toString",
            "x.__proto__.y",
            "..",
            "ü",
            "Object",
            "hasOwnProperty",
        ]
        gates = [GATES[0], *(gate(name, "value") for name in names)]
        sandbox = await medium.open(gates, Limits())
        said = [line[2:].split("(")[0] for line in medium.describe(gates).splitlines() if line.startswith("- ")]
        circle = Circle()
        for number, name in enumerate(said):
            if name != "done":
                outcome = await sandbox.run(f"{name}({number})", circle, SEED)
                assert outcome.error is None, (name, outcome)
        assert sorted(name for name, _ in circle.calls) == sorted(names)
