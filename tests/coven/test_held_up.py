"""A loop that is held up: the line that does it is said, once, and nothing else is."""

from __future__ import annotations

import asyncio
import inspect
import threading
from types import FrameType

from branches.place import place_in, with_callers
from coven.configuration import configure
from coven.held_up import Watch, watched
from coven.host import Host
from journals import MemoryStore
from tests.living import living


def test_so_many_looks_without_a_beat_find_it_held_up_once():
    watch = Watch(looks=3)
    watch.beat()
    assert [watch.look() for _ in range(6)] == [False, False, False, True, False, False]
    watch.beat()
    assert [watch.look() for _ in range(4)] == [False, False, False, True]
    for _ in range(9):
        watch.beat()
        assert not watch.look()


async def test_the_line_that_holds_it_up_is_said():
    heard = threading.Event()

    def block() -> None:
        heard.wait(1)

    line = f"test_held_up.py, line {inspect.getsourcelines(block)[1] + 1}"

    def say(place: str) -> None:
        if place == line:
            heard.set()

    async with watched(say, every_s=0.001, looks=2):
        while not heard.is_set():  # a slow machine may hold it up elsewhere first, which is said as well
            block()
            await asyncio.sleep(0)


def test_who_runs_the_loop_does_not_hold_it_up():
    """The script of a command stands around all that goes on in it, and is neither Coven nor installed."""
    said: list[tuple[str | None, str | None]] = []
    ours = {"said": said, "look": place_in, "frame": inspect.currentframe}
    exec(compile("def block(around):\n said.append((look(frame()), look(frame(), around)))", "<ours>", "exec"), ours)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        around: set[FrameType] = set()
        loop.call_soon(lambda: around.update(with_callers(inspect.currentframe())))
        loop.call_soon(ours["block"], around)
        await asyncio.sleep(0)

    exec(compile("run(main())", "/usr/local/bin/coven", "exec"), {"run": asyncio.run, "main": main})
    assert said == [("coven, line 1", None)]


async def test_a_coven_with_code_of_its_own_is_watched_and_no_other(project):
    def watching() -> bool:
        return any(thread.name == "coven-held-up" for thread in threading.enumerate())

    path = project / "coven.yaml"
    async with living(Host(configure(path, {}).config, MemoryStore(), environ={}, tell=print, only=["agents"])):
        assert not watching()
    (project / "mine.py").write_text(
        "class Mine:\n    def __init__(self, options): pass\n    async def invoke(self, request, on_text=None): ...\n"
    )
    path.write_text(path.read_text().replace("crystal: auto ", "crystal: mine\n    use: mine.py:Mine "))
    async with living(Host(configure(path, {}).config, MemoryStore(), environ={}, tell=print, only=["agents"])):
        assert watching()
