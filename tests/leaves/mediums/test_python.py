"""What only Python can try, and how its workers are shared."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE

import pytest

from branches.agents.medium import CodeEnding, GateValue
from leaves.mediums.python import Python
from tests.leaves.mediums.entities import BRIEF, GATES, LIMITS, SEED, Circle, Entity


class TestLanguage:
    async def test_functions_classes_and_modules_stay(self, python: Entity) -> None:
        await python(
            "import json, math\nclass P:\n  def __init__(self, x):\n    self.x = x\np = P(3)\ndef f(): return p.x"
        )
        assert await python.value("json.dumps([f(), math.floor(2.5)])") == "[3, 2]"

    async def test_its_own_objects_are_shown(self, python: Entity) -> None:
        assert await python.value("class P:\n  def __init__(self):\n    self.x = [1]\nP()") == "P(x=[1])"

    async def test_dataclasses_are_sent_as_objects(self, python: Entity) -> None:
        await python("from dataclasses import dataclass\n@dataclass\nclass P:\n  x: int\necho(P(3))")
        assert python.circle.calls == [("echo", {"value": {"x": 3}})]

    async def test_tuples_are_sent_as_lists(self, python: Entity) -> None:
        assert await python.value("echo((1, (2,)))") == [1, [2]]

    @pytest.mark.parametrize("value", ["float('nan')", "10**30", "b'x'", "{1: 2}", "{1}", "1j", "echo", "object()"])
    async def test_what_json_does_not_have_is_refused(self, python: Entity, value: str) -> None:
        outcome = await python(f"echo([{value}])")
        if python.circle.calls:
            assert python.circle.calls == [("echo", {"value": ["echo"]})]  # a function crosses as its name
        else:
            assert outcome.ending is CodeEnding.RAISED

    async def test_a_number_too_long_to_show(self, python: Entity) -> None:
        outcome = await python("10 ** 5000")
        assert outcome.ending is CodeEnding.COMPLETED
        assert outcome.value == "<int that cannot be shown>"

    async def test_gate_errors_of_its_own_classes(self, python: Entity) -> None:
        for name in ("KeyError", "TimeoutError", "PermissionError", "FileNotFoundError"):
            code = f"try:\n  fail('{name}', 'no')\nexcept {name} as e:\n  said = str(e)\nsaid"
            assert "no" in await python.value(code)

    @pytest.mark.parametrize("name", ["SystemExit", "KeyboardInterrupt", "BaseException", "StopIteration", "", "é"])
    async def test_gate_errors_that_would_end_a_program_are_plain(self, python: Entity, name: str) -> None:
        outcome = await python(f"fail({name!r}, 'no')")
        assert outcome.error is not None
        assert outcome.error.name == "RuntimeError"

    async def test_sleep_takes_no_time(self, python: Entity) -> None:
        assert await python.value("import time\nbegan = time.time()\ntime.sleep(3600)\ntime.time() - began") == 3600

    @pytest.mark.parametrize(
        "code", ["x = 2\n3 ** 10 ** 8", "x = 2\n[[]] * (2 * 10 ** 6)", "x = 2\n'%1000000000d' % 1"]
    )
    async def test_what_would_end_a_worker_ends_the_turn(self, python: Entity, code: str) -> None:
        await python("x = 1")
        outcome = await python(code)
        assert (outcome.ending, outcome.restored) == (CodeEnding.OUT_OF_MEMORY, True)
        assert await python.value("x") == 1

    @pytest.mark.parametrize(
        "code",
        [
            "while True:\n  try:\n    while True: pass\n  except BaseException: pass",
            "import re\nre.match(r'(a|aa)+$', 'a' * 60 + 'b')\nwhile True: pass",
            "def f():\n  try:\n    f()\n  finally:\n    f()\nf()",
            "sum(range(10 ** 12))",
            "max(range(10 ** 12))",
            "sorted(range(10 ** 6), key=lambda x: sorted(range(10 ** 4)))",
            "10 ** 18 in range(0, 10 ** 19, 3)\n[x for x in range(10 ** 12) if x < 0]",
        ],
    )
    async def test_stubborn_code_is_stopped(self, code: str) -> None:
        medium = Python()
        brief = Entity(await medium.open(GATES, BRIEF), Circle())
        await brief("x = 1")
        outcome = await brief(code)
        assert outcome.ending is not CodeEnding.COMPLETED
        assert await brief.value("x") == 1
        await medium.close()


class TestDone:
    async def test_leaves_a_sandbox_that_goes_on(self, python: Entity) -> None:
        for number in range(3):
            assert (await python(f"x = {number}\ndone(x)\nx = 9")).ending is CodeEnding.FINISHED
            assert await python.value("echo(x)") == number

    async def test_even_where_the_code_speaks_of_the_engine(self, python: Entity) -> None:
        await python("x = 'omax_suspensions\\x00omax_total_sleep'\ny = 1\ndone(1)")
        assert await python.value("echo(y)") == 1
        assert await python.value("x") == "omax_suspensions\x00omax_total_sleep"


class TestWorkers:
    async def test_none_is_held_while_a_gate_takes_its_time(self) -> None:
        medium = Python(workers=1)
        circle = Circle()
        waiting = [await medium.open(GATES, LIMITS) for _ in range(5)]
        turns = [asyncio.ensure_future(s.run(f"x = {n}\nslow()\nx", circle, SEED)) for n, s in enumerate(waiting)]
        await circle.called(5)
        other = Entity(await medium.open(GATES, LIMITS), Circle())
        assert await other.value("echo(1)") == 1
        circle.go_on.set()
        assert [outcome.value for outcome in await asyncio.gather(*turns)] == [0, 1, 2, 3, 4]
        await medium.close()

    async def test_children_and_their_children_need_no_more_than_one(self) -> None:
        medium = Python(workers=1)

        async def child(depth: int) -> GateValue:
            circle = Circle()
            circle.answer = lambda gate, arguments: child(arguments["intent"])
            sandbox = await medium.open(GATES, LIMITS)
            outcome = await sandbox.run(f"call_agent({depth + 1}) + 1" if depth < 5 else "1", circle, SEED)
            return GateValue(outcome.value)

        assert (await child(0)).value == 6
        await medium.close()

    async def test_end_when_none_was_needed_for_a_while(self) -> None:
        medium = Python(idle_s=0.0)
        entity = Entity(await medium.open(GATES, LIMITS), Circle())
        for number in range(3):
            assert await entity.value(f"x = {number}\nx") == number
            await medium.workers.asleep.wait()
        await medium.close()

    async def test_that_die_cost_a_turn_alone(self, python: Entity) -> None:
        await python("x = 1")
        pgrep = await asyncio.create_subprocess_exec("pgrep", "-P", str(os.getpid()), "-x", "monty", stdout=PIPE)
        workers = [int(pid) for pid in (await pgrep.communicate())[0].split()]
        assert workers

        async def kill(gate: str, arguments: object) -> GateValue:
            for worker in workers:
                os.kill(worker, signal.SIGKILL)
            return GateValue(None)

        python.circle.answer = lambda gate, arguments: kill(gate, arguments)
        outcome = await python("x = 2\necho(1)")
        assert (outcome.ending, outcome.restored) == (CodeEnding.CRASHED, True)
        assert await python.value("x") == 1

    async def test_few_serve_many(self) -> None:
        medium = Python(workers=2)
        entities = [Entity(await medium.open(GATES, LIMITS), Circle()) for _ in range(30)]
        await asyncio.gather(*(entity.value(f"n = {k}") for k, entity in enumerate(entities)))
        for _ in range(3):
            await asyncio.gather(*(entity.value("n = n + echo(1)\nn") for entity in entities))
        assert [await entity.value("n") for entity in entities] == [number + 3 for number in range(30)]
        await medium.close()
