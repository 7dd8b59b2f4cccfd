"""The host: a configuration made to run over a store; here the one in memory."""

from __future__ import annotations

import pytest

from branches.chat import ChatAfferent
from coven.backoff import Backoff
from coven.configuration import UnknownService, configure
from coven.host import Host
from coven.lifecycle import system_registry
from coven.supervisor import ServiceFailed, TakenOver
from journals import MemoryStore
from tests.living import living


@pytest.fixture
def config(project):
    return configure(project / "coven.yaml", {}).config


def make(config, store, told=None, **options) -> Host:
    tell = (told if told is not None else []).append
    return Host(config, store, environ=options.pop("environ", {}), tell=tell, **options)


async def test_the_whole_line_runs_in_memory(config, typed):
    typed.type("what files are here?\n")
    typed.end()
    await make(config, MemoryStore()).run(lambda: None)
    assert typed.printed() == "In the workspace:\n  notes.md  (87 bytes)\n"


async def test_services_can_run_in_hosts_of_their_own(config, typed):
    store = MemoryStore()
    async with (
        living(make(config, store, only=["covenant"])),
        living(make(config, store, only=["spellcasting"])),
        living(make(config, store, only=["agents"])),
    ):
        typed.type("read notes.md\n")
        typed.end()
        await make(config, store, only=["chat"]).run(lambda: None)
    assert typed.printed().startswith("notes.md says:")


async def test_folders_are_relative_to_the_configuration(config, project, typed, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    typed.type("write 'x' to here.txt\n")
    typed.end()
    await make(config, MemoryStore()).run(lambda: None)
    assert (project / "workspace" / "here.txt").exists()
    assert not (tmp_path / "workspace").exists()


async def test_it_says_what_it_is_in_one_line(config):
    host = make(config, MemoryStore(), only=["agents", "spellcasting"])
    async with living(host):
        assert host.describe() == "hearth: spellcasting, agents · crystal rehearsal · workspace ./workspace"
    assert not host.interactive
    assert repr(host) == "<Host hearth: spellcasting, agents>"


def test_a_service_that_it_does_not_have_is_refused_before_anything_is_opened(config):
    with pytest.raises(UnknownService):
        make(config, MemoryStore(), only=["oracle"])


async def test_a_key_that_is_set_picks_its_provider_and_is_not_said(config, monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", "canary")
    told: list[str] = []
    host = make(config, MemoryStore(), told, only=["agents"], environ={"GEMINI_API_KEY": "canary"})
    async with living(host):
        assert "crystal gemini" in host.describe()
        assert "canary" not in host.describe()
        assert told == []


async def test_lifecycles_are_recorded_with_the_host_they_belong_to(config):
    store = MemoryStore()
    host = make(config, store, only=["agents"])
    async with living(host):
        pass
    journal = await store.open("coven", system_registry())
    entries = [record.entry async for record in journal.read(session="agents")]
    assert [entry.state for entry in entries] == ["starting", "running", "stopping", "stopped"]
    assert {entry.host for entry in entries} == {host.owner}


async def test_another_router_takes_over_and_the_first_host_stops(config):
    store = MemoryStore()
    older, newer = make(config, store, only=["covenant"]), make(config, store, only=["covenant"])
    async with living(older) as first, living(newer):
        chat = await store.open("chat", config.branches["chat"].manifest.registry())
        await chat.append(ChatAfferent(sender="ada", text="hi"), session="s")
        with pytest.raises(TakenOver, match="'covenant' was taken over by another coven"):
            await first


async def test_a_service_that_breaks_for_good_stops_the_host_with_its_reason(project):
    broken = project / "broken.py"
    broken.write_text(
        "class Broken:\n"
        "    def __init__(self, options, name): pass\n"
        "    async def run(self, port, ready):\n"
        "        ready()\n"
        "        raise ConnectionError('the platform is away')\n"
        "    async def deliver(self, message): pass\n"
    )
    path = project / "coven.yaml"
    path.write_text(path.read_text().replace("leaf: console ", "leaf: broken\n    use: broken.py:Broken "))
    store = MemoryStore()
    host = make(configure(path, {}).config, store, backoff=Backoff(first=0.001, limit=2))
    with pytest.raises(ServiceFailed, match=r"'chat' failed 3 times within 60 s.*: the platform is away"):
        await host.run(lambda: None)
    journal = await store.open("coven", system_registry())
    failures = [record.entry async for record in journal.read(session="chat") if record.entry.state == "failed"]
    assert [entry.failures for entry in failures] == [1, 2, 3]
