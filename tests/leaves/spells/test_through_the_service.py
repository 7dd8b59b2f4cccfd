"""The catalogue's substrates behind the Spellcasting service, over a journal: what an entity meets."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from branches.catalogue import LeafKind
from branches.spellcasting import SPELLCASTING, SpellInvocation
from branches.spellcasting.options import configured_substrates, spellcasting_options
from branches.spellcasting.service import SpellcastingService
from journals import Entry, Journal, Record, Store
from leaves.catalogue import CATALOGUE

SUBSTRATES = CATALOGUE.of(LeafKind.SUBSTRATE)


def section(workspace: Path) -> msgspec.Struct:
    """The section of a configuration, as it is read from the file."""
    return msgspec.convert(
        {"fs": {"root": str(workspace)}, "shell": {"root": str(workspace), "allow": ["cat", "ls", "sh"]}},
        spellcasting_options({name: leaf.options for name, leaf in SUBSTRATES.items()}),
    )


async def serve(store: Store, workspace: Path) -> asyncio.Task[None]:
    configured = configured_substrates(section(workspace))
    service = SpellcastingService(
        "spellcasting",
        await store.open("spellcasting", SPELLCASTING.registry()),
        {name: SUBSTRATES[name].load()(options) for name, options in configured.items()},
        CATALOGUE.spells(),
        owner="test",
    )
    return asyncio.create_task(service.run(lambda: None))


async def cast(journal: Journal, call: str, spell: str, **arguments: Any) -> None:
    entry = SpellInvocation(correlation_id=call, spell=spell, arguments=arguments)
    await journal.append(entry, session="s", correlation_id=call)


async def outcome(journal: Journal, call: str) -> Record[Entry]:
    return await journal.wait_for(call, kinds=["SpellResult", "SpellFault"], timeout=60)


async def test_one_turn_of_several_calls_works_on_real_files_in_order(store: Store, workspace: Path):
    service = await serve(store, workspace)
    journal = await store.open("spellcasting", SPELLCASTING.registry())
    await cast(journal, "c1", "fs.write_text", path="list.txt", text="milk\n")
    await cast(journal, "c2", "shell.exec", cmd="cat list.txt")
    await cast(journal, "c3", "fs.list_dir")
    await cast(journal, "c4", "fs.read_text", path="../secret")
    await cast(journal, "c5", "shell.exec", cmd="cat ../secret")
    outcomes: list[Any] = [(await outcome(journal, f"c{number}")).entry for number in range(1, 6)]
    service.cancel()
    assert outcomes[0].result == {"path": "list.txt", "size": 5, "overwritten": False}
    assert outcomes[1].result == {"exit_code": 0, "stdout": "milk\n", "stderr": "", "truncated": False}
    assert [entry["name"] for entry in outcomes[2].result["entries"]] == ["list.txt"]
    assert [(fault.kind(), fault.code) for fault in outcomes[3:]] == [("SpellFault", "denied")] * 2


async def test_a_service_cut_off_while_a_program_runs_ends_it_and_says_in_doubt(store: Store, workspace: Path):
    os.mkfifo(workspace / "alive")
    (workspace / "work.sh").write_text("exec 3> alive\necho started >&3\nsleep 1000 &\nsleep 1000\n")
    service = await serve(store, workspace)
    journal = await store.open("spellcasting", SPELLCASTING.registry())
    await cast(journal, "c1", "shell.exec", cmd="sh work.sh", timeout_s=1000)
    alive = await asyncio.to_thread(open, workspace / "alive")
    assert await asyncio.to_thread(alive.readline) == "started\n"
    service.cancel()
    with pytest.raises(asyncio.CancelledError):
        await service
    assert await asyncio.to_thread(alive.read) == ""  # the pipe ends when no process has it any more
    alive.close()
    restarted = await serve(store, workspace)
    fault: Any = await outcome(journal, "c1")
    restarted.cancel()
    assert fault.entry.code == "in_doubt"


@pytest.mark.parametrize("name", SUBSTRATES)
def test_each_substrate_of_the_catalogue_serves_spells_of_its_own_name(name: str):
    leaf = SUBSTRATES[name]
    assert leaf.spells
    assert {spell.substrate() for spell in leaf.spells} == {name}
    assert set(leaf.trust) <= {spell.name() for spell in leaf.spells}
    assert leaf.options is not None
    assert set(leaf.folders) <= set(leaf.options.__struct_fields__)
    assert callable(leaf.load())
