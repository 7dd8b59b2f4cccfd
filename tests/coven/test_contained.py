"""A bug in a crystal ends the episode that met it: other prompts are answered, and so are all later ones."""

from __future__ import annotations

import logging

import pytest

from branches.agents.crystal import CrystalError, CrystalRequest, Message, thinks_aloud
from coven.configuration import configure
from coven.contained import contain
from coven.host import Host
from coven.lifecycle import system_registry
from journals import MemoryStore

STUMBLING = """\
from branches.agents.crystal import CrystalResponse

class Stumbling:
    def __init__(self, options): pass
    async def invoke(self, request, on_text=None):
        last = request.messages[-1].content
        return CrystalResponse(content={"hello": "hello yourself"}[last])
"""


async def test_a_coven_goes_on_and_says_what_was_raised_where(project, typed, caplog):
    (project / "stumbling.py").write_text(STUMBLING)
    path = project / "coven.yaml"
    text = path.read_text().replace("crystal: auto ", "crystal: stumbling\n    use: stumbling.py:Stumbling ")
    path.write_text(text)
    store = MemoryStore()
    typed.type("stumble\nhello\n")
    typed.end()
    await Host(configure(path, {}).config, store, environ={}, tell=print).run(lambda: None)
    said = "I could not go on: the crystal stumbling raised KeyError (stumbling.py, line 7); the log says more"
    assert typed.printed() == f"{said}\nhello yourself\n"
    assert "the crystal stumbling raised KeyError: 'stumble' (stumbling.py, line 7)" in caplog.text
    journal = await store.open("coven", system_registry())
    assert "failed" not in {record.entry.state for record in [r async for r in journal.read(session="agents")]}


@pytest.mark.parametrize("raised", [CrystalError("refused", "not this"), ZeroDivisionError("a bug"), SystemExit(3)])
async def test_what_can_be_expected_stays_what_it_is(raised, caplog):
    class Raising:
        context_limit = 7

        async def invoke(self, request, on_text=None):
            raise raised

    crystal = contain(Raising(), "raising")
    with caplog.at_level(logging.ERROR), pytest.raises(CrystalError) as failure:
        await crystal.invoke(CrystalRequest((Message("user", "go"),)))
    expected = isinstance(raised, CrystalError)
    assert (failure.value is raised, failure.value.code) == (expected, "refused" if expected else "broken")
    assert bool(caplog.records) is not expected
    assert crystal.context_limit == 7


def test_a_crystal_that_thinks_aloud_still_does():
    class Thinking:
        async def invoke(self, request, on_text=None, on_thought=None): ...

    class Silent:
        async def invoke(self, request, on_text=None): ...

    assert (thinks_aloud(contain(Thinking(), "a")), thinks_aloud(contain(Silent(), "b"))) == (True, False)
