"""The search agent of the specification, as it stands in the examples."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from journals import MemoryStore
from policies import replay, run, run_registry

FILE = Path(__file__).parents[2] / "examples/search_agent/search_agent.py"


@pytest.fixture
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_search_agent", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_it_goes_the_way_of_the_specification(example: ModuleType) -> None:
    ledger = await run("search_agent", {"question": "What is the latest Python version?"}, example.registry)
    told = [(step.actor, step.type) for step in ledger]
    end = [
        ("assistant", "text"),
        ("assistant", "action_call"),
        ("web_search_policy", "action_result"),
        ("assistant", "text"),
    ]
    assert told[-4:] == end
    *_, said, call, result, answer = ledger
    assert said.payload == {"text": "Let me search for that."}
    assert call.payload == {"policy": "web_search_policy", "payload": {"query": "latest python version"}}
    assert result.payload["results"][0]["url"] == "https://www.python.org/downloads/"
    assert answer.payload == {"text": "Python 3.13 is the latest feature release of the Python language."}
    assert example.asked == {"model": 2, "web": 1}


async def test_a_search_that_finds_nothing_is_data(example: ModuleType) -> None:
    ledger = await run("search_agent", {"question": "Who is nobody?"}, example.registry)
    assert ledger[-1].payload == {"text": "I found nothing: nothing on 'nobody'"}
    assert ledger[-2].is_error


async def test_what_is_recorded_is_asked_of_nobody_again(example: ModuleType) -> None:
    journal = await MemoryStore().open("runs", run_registry())
    payload = {"question": "When did Python 3.13 come out?"}
    ledger = await run("search_agent", payload, example.registry, journal=journal, run_id="r")
    example.asked.clear()
    assert await run("search_agent", payload, example.registry, journal=journal, run_id="r") == ledger
    assert await replay("r", example.registry, journal=journal) == ledger
    assert example.asked.total() == 0
