"""A kill at any journal operation of a two-tool conversation: the next start ends in the same journals.

The short form kills at every fifth point; `pytest -m chaos` kills at all of them, and the server at all of them too.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections import Counter
from itertools import count
from pathlib import Path

import pytest
import pytest_asyncio

from branches.agents import AGENTS
from branches.chat import CHAT
from branches.spellcasting import SPELLCASTING
from coven.testing.crashes import FaultPoint, killed_at, reached_points, story
from covenants.dead_letters import dead_letter_registry
from journals import EmbeddedServer, Entry, JetStreamStore, Record

HERE = Path(__file__).parent
REGISTRIES = {
    "chat": CHAT.registry(),
    "agents": AGENTS.registry(),
    "spellcasting": SPELLCASTING.registry(),
    "dead-letters": dead_letter_registry(),
}
_numbers = count(1)
APPROVED = "approved.yaml"
_KILLED = -signal.SIGKILL
Whole = tuple[list[FaultPoint], list[str]]


class Case:
    """One coven of its own on the shared server, run as often as the test likes."""

    def __init__(self, folder: Path, server: EmbeddedServer, file: str = "coven.yaml") -> None:
        self.asks_a_person = file == APPROVED
        self.folder, self.server = folder / f"case{next(_numbers)}", server
        self.name = f"crash{os.getpid()}x{next(_numbers)}"
        self.folder.mkdir()
        self.effects = self.folder / "effects.log"
        self.effects.touch()
        shutil.copy(HERE / "probe.py", self.folder)
        text = (HERE / file).read_text().replace("coven: crash", f"coven: {self.name}")
        (self.folder / "coven.yaml").write_text(text)

    async def run(self, **environment: str) -> int:
        """Run until the conversation is over, or something kills it; gives the exit code."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "from coven.cli import main; main()", "run"),
            cwd=self.folder,
            env={
                **os.environ,
                "PROBE_NATS": self.server.url,
                "PROBE_TOKEN": self.server.token,
                "PROBE_EFFECTS": str(self.effects),
                **environment,
            },
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            _, errors = await asyncio.wait_for(process.communicate(), 60)
        except TimeoutError:
            process.kill()
            _, errors = await process.communicate()
            pytest.fail(f"{environment} never ended; effects: {self.done()}; {errors.decode()[-2000:]}")
        assert process.returncode in (0, _KILLED), errors.decode()[-2000:]
        return process.returncode

    def done(self) -> list[str]:
        """What was done in the world, in order."""
        return self.effects.read_text().splitlines()

    async def records(self) -> list[Record[Entry]]:
        """What stands in the journals."""
        async with await JetStreamStore.connect(self.server.url, self.name, token=self.server.token) as store:
            journals = [await store.open(name, registry) for name, registry in REGISTRIES.items()]
            return [record for journal in journals async for record in journal.read()]

    def told(self, records: list[Record[Entry]]) -> list[str]:
        """Their story. A person may answer before it is recorded that they were asked: that journal goes by kinds."""
        unordered = ("chat",) if self.asks_a_person else ()
        return story(sorted(records, key=lambda record: record.kind if record.journal in unordered else ""))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


async def undisturbed(folder: Path, server: EmbeddedServer, file: str = "coven.yaml") -> Whole:
    """The points of a run that nobody kills, and its story."""
    case, trace = Case(folder, server, file), folder / "trace"
    assert await case.run(COVEN_FAULT_TRACE=str(trace)) == 0
    return reached_points(trace), case.told(await case.records())


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def whole(tmp_path_factory: pytest.TempPathFactory, nats_server: EmbeddedServer) -> Whole:
    """The same of the conversation that every kill but those around an approval disturbs."""
    return await undisturbed(tmp_path_factory.mktemp("undisturbed"), nats_server)


async def check(case: Case, expected: list[str]) -> None:
    """The same journals as undisturbed, or exactly one in-doubt fault; no effect twice."""
    records = await case.records()
    done = Counter(line.rsplit(" ", 1)[0] if line.startswith("cast") else line.split()[0] for line in case.done())
    assert done["cast probe.once"] <= 1, case.done()
    assert len({line for line in case.done() if line.startswith("cast probe.again")}) == 1, case.done()
    assert len({line for line in case.done() if line.startswith("delivered")}) == 1, case.done()
    assert done["asked"] <= 3, case.done()
    faults = [record for record in records if record.kind == "SpellFault"]
    if not faults:
        assert done["cast probe.once"] == 1, case.done()
        assert case.told(records) == expected
        return
    (fault,) = faults
    assert fault.entry.code == "in_doubt", fault  # type: ignore[attr-defined]
    assert _outline_of(case.told(records)) == _outline_of(expected)


def _outline_of(lines: list[str]) -> list[str]:
    """The kinds in order, results and faults alike: after an in-doubt fault the words differ and nothing else."""
    kinds = [line.partition('"kind":"')[2].partition('"')[0] for line in lines]
    return [kind.replace("Fault", "Result") for kind in kinds]


async def kill_at(
    points: list[FaultPoint], expected: list[str], folder: Path, server: EmbeddedServer, file: str = "coven.yaml"
) -> None:
    for point in points:
        case = Case(folder, server, file)
        assert await case.run(**killed_at(point)) == _KILLED, f"{point} was not reached"
        assert await case.run() == 0
        try:
            await check(case, expected)
        except AssertionError as error:
            raise AssertionError(f"killed at {point}: {error}") from error


@pytest.mark.parametrize("part", range(4))
async def test_a_kill_at_every_fifth_operation(
    folder: Path, nats_server: EmbeddedServer, whole: Whole, part: int
) -> None:
    points, expected = whole
    assert len(points) > 40
    await kill_at(points[2::5][part::4], expected, folder, nats_server)


@pytest.mark.chaos
@pytest.mark.timeout(1800)
async def test_a_kill_at_every_operation(folder: Path, nats_server: EmbeddedServer, whole: Whole) -> None:
    points, expected = whole
    await kill_at(points, expected, folder, nats_server)


OF_AN_APPROVAL = ("chat.route.ChatQuestion", "chat.append.ChatAnswer", "chat.route.ChatEfferentDraft")


async def test_a_kill_around_the_approval_of_a_route(folder: Path, nats_server: EmbeddedServer) -> None:
    points, expected = await undisturbed(folder, nats_server, APPROVED)
    chosen = [point for point in points if point.name.startswith(OF_AN_APPROVAL)]
    assert len(chosen) == 6
    await kill_at(chosen, expected, folder, nats_server, APPROVED)


@pytest.mark.chaos
@pytest.mark.timeout(1800)
async def test_a_kill_at_every_operation_of_an_approval(folder: Path, nats_server: EmbeddedServer) -> None:
    points, expected = await undisturbed(folder, nats_server, APPROVED)
    await kill_at(points, expected, folder, nats_server, APPROVED)


async def kill_server_at(points: list[FaultPoint], expected: list[str], folder: Path) -> None:
    async with EmbeddedServer(folder / "server", durability="process") as server:
        for point in points:
            case = Case(folder, server)
            running = asyncio.create_task(case.run(**killed_at(point, pid=server.pid)))
            failed = asyncio.create_task(server.wait_failed())
            await asyncio.wait({running, failed}, return_when=asyncio.FIRST_COMPLETED)
            if failed.done():
                await server.restart()
            failed.cancel()
            assert await running == 0
            try:
                await check(case, expected)
            except AssertionError as error:
                raise AssertionError(f"server killed at {point}: {error}") from error


@pytest.mark.parametrize("part", range(2))
async def test_a_kill_of_the_server_at_every_fifteenth_operation(folder: Path, whole: Whole, part: int) -> None:
    points, expected = whole
    await kill_server_at(points[::15][part::2], expected, folder)


@pytest.mark.chaos
@pytest.mark.timeout(1800)
async def test_a_kill_of_the_server_at_every_operation(folder: Path, whole: Whole) -> None:
    points, expected = whole
    await kill_server_at(points, expected, folder)
