"""Variables as bytes: for another process, for a fork, and never for another engine."""

from __future__ import annotations

import asyncio
import sys
import zlib
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from branches.agents.medium import Limits, Medium, SnapshotRefused
from leaves.mediums.javascript import JavaScript
from leaves.mediums.python import Python
from leaves.mediums.sealed import seal, unseal
from tests.leaves.mediums.entities import GATES, LIMITS, SEED, Circle, Entity

_ELSEWHERE = """
import asyncio, sys
from leaves.mediums.javascript import JavaScript
from leaves.mediums.python import Python
from tests.leaves.mediums.entities import GATES, LIMITS, SEED, Circle

async def main():
    medium = {"javascript": JavaScript, "python": Python}[sys.argv[1]]()
    sandbox = await medium.open(GATES, LIMITS, open(sys.argv[2], "rb").read())
    circle = Circle()
    outcome = await sandbox.run(sys.argv[3], circle, SEED)
    print(outcome.value, circle.calls)
    await medium.close()

asyncio.run(main())
"""


async def test_is_restored_in_another_process(medium: Medium, entity: Entity, tmp_path: Path) -> None:
    code = (
        "var list = [1, 2]; function twice(x) { return x * 2 }; const name = 'é'"
        if medium.name == "javascript"
        else "list_ = [1, 2]\ndef twice(x): return x * 2\nname = 'é'"
    )
    await entity(code)
    file = tmp_path / "snapshot"
    file.write_bytes(await entity.sandbox.snapshot() or b"")
    code = "read('x')\ntwice(21) + name" if medium.name == "javascript" else "read('x')\nstr(twice(21)) + name"
    command = (sys.executable, "-c", _ELSEWHERE, medium.name, str(file), code)
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
    out, err = await process.communicate()
    assert out.decode().strip() == "42é [('read', {'path': 'x'})]", err.decode()


async def test_a_fork_goes_its_own_way(medium: Medium, entity: Entity) -> None:
    await entity("x = [1]" if medium.name == "python" else "var x = [1]")
    fork = Entity(await medium.open(GATES, LIMITS, await entity.sandbox.snapshot()), Circle())
    append = "x.append(2)" if medium.name == "python" else "x.push(2)"
    await fork(append)
    assert await fork.value("x") == [1, 2]
    assert await entity.value("x") == [1]


async def test_of_a_sandbox_that_never_ran(medium: Medium, entity: Entity) -> None:
    fork = Entity(await medium.open(GATES, LIMITS, await entity.sandbox.snapshot()), Circle())
    assert await fork.value("echo(1)") == 1


async def test_brings_the_gates_of_its_new_circle(medium: Medium) -> None:
    before = await medium.open([], LIMITS)
    await before.run("read = 1" if medium.name == "python" else "var read = 1", Circle(), SEED)
    after = Entity(await medium.open(GATES, LIMITS, await before.snapshot()), Circle())
    await after("read('a')")
    assert after.circle.calls == [("read", {"path": "a"})]


async def test_of_another_engine_is_refused(medium: Medium) -> None:
    with pytest.raises(SnapshotRefused, match="another engine"):
        await medium.open(GATES, LIMITS, seal(b"an older build", b"variables"))


async def test_of_the_other_medium_is_refused(entity: Entity, medium: Medium) -> None:
    other: Medium = Python() if medium.name == "javascript" else JavaScript()
    with pytest.raises(SnapshotRefused):
        await other.open(GATES, LIMITS, await entity.sandbox.snapshot())
    await other.close()


async def test_that_does_not_fit_is_refused(medium: Medium, entity: Entity) -> None:
    fill = "a = ['x' * 100 + str(i) for i in range(20000)]"
    await entity(
        fill if medium.name == "python" else "var a = []; for (let i = 0; i < 5e4; i++) a.push('x'.repeat(100) + i)"
    )
    with pytest.raises(SnapshotRefused):
        await medium.open(GATES, structs.replace(LIMITS, memory_bytes=1024 * 1024), await entity.sandbox.snapshot())


async def test_that_is_none_is_refused(medium: Medium) -> None:
    for junk in (b"", b"x", b"COVENSB1", zlib.compress(b"x" * 1000), b"COVENSB1" + b"x" * 100):
        with pytest.raises(SnapshotRefused):
            await medium.open(GATES, Limits(), junk)


@given(at=st.integers(0, 10_000), change=st.integers(1, 255))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_that_is_damaged_is_refused(at: int, change: int) -> None:
    whole = bytearray(seal(b"engine", bytes(range(256)) * 100))
    whole[at % len(whole)] ^= change
    with pytest.raises(SnapshotRefused):
        unseal("python", b"engine", bytes(whole), 10**6)


@given(content=st.binary())
def test_a_seal_keeps_what_it_seals(content: bytes) -> None:
    assert unseal("python", b"engine", seal(b"engine", content), len(content) + 1) == content


def test_a_small_snapshot_cannot_blow_up() -> None:
    with pytest.raises(SnapshotRefused, match="larger"):
        unseal("python", b"engine", seal(b"engine", bytes(10**7)), 10**6)
