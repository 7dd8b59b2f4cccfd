"""What only JavaScript can try, and what only it offers."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import structs

from branches.agents.medium import CodeEnding, GateValue
from leaves.mediums.javascript import JavaScript
from tests.leaves.mediums.entities import GATES, LIMITS, SEED, Circle, Entity

POISON = """
const never = () => { throw new Error('poisoned') };
for (const [made, names] of [
  [JSON, ['parse', 'stringify']],
  [Object, ['keys', 'defineProperty', 'freeze', 'getPrototypeOf']],
  [Array, ['isArray']],
  [Function.prototype, ['call', 'apply', 'bind', 'toString']],
  [String.prototype, ['slice', 'toString', 'valueOf', Symbol.iterator]],
  [Array.prototype, ['map', 'push', 'join', 'forEach', 'slice', 'toString', Symbol.iterator]],
  [Map.prototype, ['forEach', 'get', 'set']],
  [RegExp.prototype, ['test', 'exec']],
  [Promise.prototype, ['then', 'catch']],
]) for (let n = 0; n < names.length; n++) made[names[n]] = never;
for (const key of ['toJSON', 'get', 'set', 'value', 'writable', 'now', 'name', 'length', '0', '1', '2']) {
  if (key !== 'length' && key !== 'name') Object.prototype[key] = undefined;
}
globalThis.String = globalThis.Error = globalThis.Promise = globalThis.Symbol = never;
1
"""


class TestDeclarations:
    async def test_can_be_made_again(self, javascript: Entity) -> None:
        for code in ("let x = 1; const y = 2; class Z {}", "const x = 3; let y = 4; class Z { static z = 5 }"):
            assert (await javascript(code)).error is None
        assert await javascript.value("[x, y, Z.z]") == [3, 4, 5]

    async def test_that_fail_leave_their_name_free(self, javascript: Entity) -> None:
        assert (await javascript("const x = fail('Error', 'no')")).ending is CodeEnding.RAISED
        assert await javascript.value("const x = 1; x") == 1

    async def test_in_code_that_cannot_be_followed_are_undone_when_it_fails(self, javascript: Entity) -> None:
        outcome = await javascript("var odd = 1; { if (odd) /[(]/.test(''); }\nconst x = fail('Error', 'no') /* ( */")
        assert outcome.ending is CodeEnding.RAISED
        assert await javascript.value("const x = 1; x") == 1

    async def test_without_a_value_begin_anew(self, javascript: Entity) -> None:
        await javascript("let total = 5")
        assert await javascript.value("let total; String(total)") == "undefined"

    async def test_of_functions_named_like_gates_say_so(self, javascript: Entity) -> None:
        outcome = await javascript("function read(path) { return path }")
        assert outcome.error is not None
        assert "'read'" in outcome.error.message


class TestPromises:
    async def test_code_may_wait_at_its_top_level(self, javascript: Entity) -> None:
        assert await javascript.value("const r = await echo(1); const s = await Promise.all([echo(2), r]); s") == [2, 1]
        assert await javascript.value("r") == 1

    async def test_the_value_of_a_promise_is_the_value(self, javascript: Entity) -> None:
        assert await javascript.value("(async () => { return echo(1) + 1 })()") == 2

    async def test_a_rejected_promise_is_an_error(self, javascript: Entity) -> None:
        outcome = await javascript("(async () => { throw new TypeError('no') })()")
        assert outcome.error is not None
        assert (outcome.error.name, outcome.error.message) == ("TypeError", "no")

    async def test_one_that_never_comes_is_shown(self, javascript: Entity) -> None:
        assert await javascript.value("new Promise(() => {})") == "[Promise]"

    async def test_done_among_them_ends_the_turn(self, javascript: Entity) -> None:
        code = """
        Promise.resolve().then(() => read('later'));
        (async () => {
          try { await (async () => done(1))() } catch (e) { read('caught') } finally { read('finally') }
        })()
        """
        assert (await javascript(code)).ending is CodeEnding.FINISHED
        assert javascript.circle.calls == [("done", {"answer": 1})]
        await javascript("1")
        assert javascript.circle.calls == [("done", {"answer": 1})]

    @pytest.mark.parametrize(
        "code",
        [
            "const f = () => Promise.resolve().then(f); f()",
            "const g = () => { Promise.resolve().then(g); Promise.resolve().then(g) }; g()",
            "(async () => { for (;;) await 0 })()",
            "queueMicrotask(function f() { queueMicrotask(f) })",
        ],
    )
    async def test_without_end_are_stopped_and_do_not_go_on(self, javascript: Entity, code: str) -> None:
        await javascript("var x = 1")
        assert (await javascript(code)).ending in (CodeEnding.TIMED_OUT, CodeEnding.OUT_OF_MEMORY)
        assert await javascript.value("x") == 1


class TestPoison:
    """What an entity does to the language stays its own trouble: gates, `done` and limits hold."""

    async def test_gates_answer_truthfully(self, javascript: Entity) -> None:
        javascript.circle.answer = lambda gate, arguments: GateValue({"true": [1, None]})
        await javascript(POISON)
        outcome = await javascript("var r = echo('x'); r")
        assert outcome.error is None
        assert outcome.value == {"true": [1, None]}
        assert javascript.circle.calls == [("echo", {"value": "x"})]

    async def test_gate_errors_keep_name_and_message(self, javascript: Entity) -> None:
        await javascript(POISON)
        outcome = await javascript("fail('KeyError', 'no')")
        assert outcome.error is not None
        assert (outcome.error.name, outcome.error.message) == ("KeyError", "no")

    async def test_done_ends(self, javascript: Entity) -> None:
        await javascript(POISON)
        outcome = await javascript("try { done(1) } finally { read('x') }")
        assert outcome.ending is CodeEnding.FINISHED
        assert javascript.circle.calls == [("done", {"answer": 1})]

    async def test_what_is_printed_arrives(self, javascript: Entity) -> None:
        await javascript(POISON)
        assert (await javascript("print('a', [1, {b: 2}])")).output == "a [1, {b: 2}]\n"

    async def test_stays_through_a_snapshot(self, javascript: Entity) -> None:
        await javascript(POISON)
        medium = JavaScript()
        later = Entity(await medium.open(GATES, LIMITS, await javascript.sandbox.snapshot()), Circle())
        assert await later.value("echo(1)") == 1
        await medium.close()

    @pytest.mark.parametrize(
        "code",
        [
            "Object.prototype.toJSON = () => 'forged'; String.prototype.toJSON = () => 'forged'; read('x')",
            "Array.prototype.toJSON = () => ({length: 1, 0: 'forged'}); read('x')",
            "Array.prototype.toJSON = () => undefined; read('x')",
            "Array.prototype.toJSON = () => done; read('x')",
            "Object.defineProperty(Array.prototype, '0', {set() {}, get: () => 2, configurable: true}); echo('x')",
            "Object.defineProperty(Object.prototype, '0', {get: () => 2, configurable: true}); echo('x')",
            "Object.defineProperty(globalThis, 'done', {value: 3})",
            "Object.defineProperty(globalThis, 'read', {get: () => 3})",
            "delete globalThis.done; delete globalThis.read",
            "Object.freeze(globalThis); Object.freeze(Object.prototype)",
            "Object.setPrototypeOf(globalThis, null)",
            "Reflect.ownKeys(globalThis).forEach(k => { try { delete globalThis[k] } catch {} })",
            "globalThis.fs = {read_text: () => 'forged'}; fs.read_text('x')",
            "fs.read_text = () => 'forged'",
            "fs.__proto__ = {read_text: () => 'forged'}",
            "console.log = print = () => 'forged'",
            "Error.prepareStackTrace = () => { throw 'forged' }; fail('Error', 'x')",
            "Error = class extends Error { constructor() { throw 'forged' } }; fail('Error', 'x')",
        ],
    )
    async def test_of_one_kind_and_the_gates_are_there_next_turn(self, javascript: Entity, code: str) -> None:
        await javascript(code)
        javascript.circle.calls.clear()
        outcome = await javascript("fs.read_text('a'); print('said'); echo('b')")
        assert outcome.output == "said\n"
        assert [name for name, _ in javascript.circle.calls] == ["fs.read_text", "echo"]
        assert (await javascript("done(1)")).ending is CodeEnding.FINISHED


class TestHostileValues:
    @pytest.mark.parametrize(
        "code",
        [
            "({get a() { throw 1 }})",
            "({get a() { for (;;); }})",
            "({toString() { throw 1 }, toJSON() { throw 2 }})",
            "new Proxy({}, {ownKeys() { throw 1 }})",
            "new Proxy([], {get() { throw 1 }})",
            "new Proxy(() => {}, {get() { for (;;); }})",
            "Object.create({constructor: {get name() { throw 1 }}})",
            "throw {get name() { throw 1 }, get message() { throw 2 }}",
            "throw Object.assign(new Error('x'), {get name() { for (;;); }})",
            "throw Object.defineProperty(new Error('x'), 'name', {get() { for (;;); }})",
            "throw Object.defineProperty(new Error('x'), 'message', {get() { throw new Error('y') }})",
            "throw null",
            "throw undefined",
            "Symbol('x')",
            "Object.create(null)",
            "[,,]",
            "new Error('x')",
            "new Date(NaN)",
            "new Uint8Array(3)",
            "Promise.reject({get message() { throw 1 }})",
            "({then(f) { throw 1 }})",
            "print(new Proxy({}, {get() { throw 1 }, ownKeys() { throw 2 }}))",
            "read(new Proxy({}, {get() { throw 1 }, ownKeys() { throw 2 }}))",
            "read({toJSON() { for (;;); }})",
        ],
    )
    async def test_are_an_outcome(self, javascript: Entity, code: str) -> None:
        await javascript("var x = 1")
        outcome = await javascript(code)
        assert outcome.ending in (CodeEnding.COMPLETED, CodeEnding.RAISED, CodeEnding.TIMED_OUT)
        assert await javascript.value("x") == 1

    async def test_reach_no_gate_when_they_are_shown(self, javascript: Entity) -> None:
        await javascript("({get a() { read('late'); done(1) }})")
        assert not javascript.circle.calls

    async def test_whole_numbers_beyond_64_bits_are_floats(self, javascript: Entity) -> None:
        assert isinstance(await javascript.value("echo(2 ** 64); 2 ** 64"), float)
        assert javascript.circle.calls == [("echo", {"value": 2.0**64})]

    async def test_arguments_nested_too_deep_are_refused(self, javascript: Entity) -> None:
        outcome = await javascript("var a = 0; for (let i = 0; i < 200; i++) a = [a]; read(a)")
        assert outcome.ending is CodeEnding.RAISED
        assert not javascript.circle.calls


class TestStubbornCode:
    @pytest.mark.parametrize(
        "code",
        [
            "/(a+)+$/.test('a'.repeat(40) + 'b')",
            "Array.prototype.indexOf.call({length: 2 ** 53 - 1}, 1)",
            "Array.prototype.reverse.call({length: 2 ** 53 - 1})",
            "for (;;) try { for (;;); } catch {} finally { continue }",
            "const it = {[Symbol.iterator]() { return this }, next() { return {done: false} }}; for (const x of it);",
            "const it = {[Symbol.iterator]() { return this }, next() { return {done: false} }}; new Map(it)",
            "(function f() { try { f() } finally { f() } })()",
            "(2n ** 1000000n) ** 16n; let b = 2n ** 500000n; for (;;) b * b",
            "'x'.repeat(1e6).split('').sort(() => Math.random() - 0.5)\nfor (;;);",
        ],
    )
    async def test_is_stopped(self, javascript: Entity, code: str) -> None:
        await javascript("var x = 1")
        outcome = await javascript(code)
        assert outcome.ending is not CodeEnding.COMPLETED
        assert await javascript.value("x") == 1


class TestGuests:
    async def test_that_were_not_used_lately_are_let_go(self) -> None:
        medium = JavaScript(warm=2)
        entities = [Entity(await medium.open(GATES, LIMITS), Circle()) for _ in range(5)]
        for round_ in range(3):
            for number, entity in enumerate(entities):
                value = await entity.value(f"globalThis.n = (globalThis.n ?? {number}) + 1")
                assert value == number + round_ + 1
        assert repr(medium) == "<JavaScript sandboxes=5 warm=2>"
        await medium.close()

    async def test_that_run_at_the_same_time_do_not_meet(self) -> None:
        medium = JavaScript(warm=2)
        entities = [Entity(await medium.open(GATES, LIMITS), Circle()) for _ in range(20)]
        for _ in range(5):
            turns = [e.value(f"globalThis.n = (globalThis.n ?? 0) + echo({k})") for k, e in enumerate(entities)]
            await asyncio.gather(*turns)
        assert [await entity.value("n") for entity in entities] == [5 * number for number in range(20)]
        await medium.close()

    async def test_give_their_memory_back(self, javascript: Entity) -> None:
        sandbox = await JavaScript().open(GATES, structs.replace(LIMITS, memory_bytes=8 * 1024 * 1024))
        assert sandbox.memory_bytes == 0
        await sandbox.run("1", Circle(), SEED)
        assert 0 < sandbox.memory_bytes < 4 * 1024 * 1024
        sandbox.cool()
        assert 0 < sandbox.memory_bytes < 512 * 1024
