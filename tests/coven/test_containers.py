"""The coven in containers: what the two files say, and the same commands run as processes."""

from __future__ import annotations

import re
import signal
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from coven.configuration import configure, services_of

ROOT = Path(__file__).parents[2]
SERVICES = ("covenant", "spellcasting", "agents", "chat")


@pytest.fixture(scope="module")
def compose():
    return YAML(typ="safe").load(ROOT / "docker-compose.yml")


@pytest.fixture(scope="module")
def dockerfile() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def test_there_is_a_container_a_service_and_one_for_the_server(compose):
    assert set(compose["services"]) == {"nats", *SERVICES}
    config = configure(ROOT / "coven.yaml", {}).config
    assert sorted(services_of(config)) == sorted(SERVICES)


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_waits_for_the_server_and_says_how_it_is(compose, name):
    service = compose["services"][name]
    assert service["build"] == "."
    assert service["command"] == ["run", "--only", name]
    assert service["depends_on"] == {"nats": {"condition": "service_healthy"}}
    assert service["environment"]["COVEN_NATS"] == "nats://nats:4222"
    assert service["healthcheck"]["test"] == ["CMD", "coven", "doctor", "--service", name]
    assert service["restart"] == "on-failure"
    assert "./coven.yaml:/coven/coven.yaml:ro" in service["volumes"]


def test_only_spells_touch_the_workspace_and_only_agents_hold_keys(compose):
    mounts = {name: [v for v in compose["services"][name]["volumes"] if "workspace" in v] for name in SERVICES}
    assert {name for name, found in mounts.items() if found} == {"spellcasting"}
    keys = {name: [k for k in compose["services"][name]["environment"] if k.endswith("_KEY")] for name in SERVICES}
    assert {name for name, found in keys.items() if found} == {"agents"}
    assert all(
        re.fullmatch(r"\$\{[A-Z_]+:-\}", compose["services"]["agents"]["environment"][key]) for key in keys["agents"]
    )


def test_the_chat_can_be_attached_to(compose):
    chat = compose["services"]["chat"]
    assert (chat["stdin_open"], chat["tty"]) == (True, True)


def test_the_server_is_new_enough_durable_and_reached_from_nowhere_else(compose):
    nats = compose["services"]["nats"]
    version = re.fullmatch(r"nats:(\d+)\.(\d+)-alpine", nats["image"])
    assert version is not None
    assert (int(version[1]), int(version[2])) >= (2, 14)
    assert "ports" not in nats
    content = compose["configs"]["nats"]["content"]
    assert re.search(r"jetstream \{[^}]*sync_interval: always", content)
    (volume,) = [volume.split(":") for volume in nats["volumes"]]
    assert volume[0] in compose["volumes"]
    assert f"store_dir: {volume[1]}" in content
    (config,) = nats["configs"]
    assert nats["command"] == ["--config", config["target"]]


def test_the_image_holds_all_packages_and_runs_without_privileges(dockerfile):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    copied = {word for word, rest in dockerfile if word == "COPY" for word in rest.split()[:-1]}
    assert {*project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"], "pyproject.toml", "README.md"} == copied
    words = dict(dockerfile)
    image = re.fullmatch(r"python:3\.(\d+)-slim", words["FROM"])
    assert image is not None
    assert int(image[1]) >= 11
    assert words["USER"] == "coven"
    assert (words["ENTRYPOINT"], words["CMD"]) == ('["coven"]', '["run"]')


def test_the_same_commands_as_processes_make_one_coven(compose, project, start, nats_server, coven_name):
    config = project / "coven.yaml"
    config.write_text((ROOT / "coven.yaml").read_text().replace("coven: hearth", f"coven: {coven_name}"))
    environ = {"COVEN_NATS": nats_server.url.replace("://", f"://{nats_server.token}@")}
    processes = {}
    for name in SERVICES[:-1]:
        processes[name] = start(*compose["services"][name]["command"], **environ)
    for name, process in processes.items():
        process.wait_for(f"{coven_name}: {name}", "stderr")
    chat = start(*compose["services"]["chat"]["command"], **environ)
    chat.type("what files are here?")
    chat.wait_for("notes.md")
    for name in SERVICES:
        command = compose["services"][name]["healthcheck"]["test"]
        health = start(*command[2:], **environ).end()
        assert (health.code, health.out) == (0, f"{name} is running\n")
    assert chat.end().code == 0
    for process in processes.values():
        process.signal(signal.SIGTERM)
        assert process.end(close=False).code == 0
    assert not (project / ".coven").exists()
