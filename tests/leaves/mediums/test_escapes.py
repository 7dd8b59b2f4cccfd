"""Ways out of a sandbox, tried: code that reaches for what is not its own gets an error, and nobody else notices."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from branches.agents.medium import CodeEnding
from tests.leaves.mediums.entities import Entity

JAVASCRIPT_NAMES = [
    "require", "process", "std", "os", "module", "fetch", "XMLHttpRequest", "WebSocket", "Deno", "Bun", "Buffer",
    "WebAssembly", "Worker", "setTimeout", "setInterval", "importScripts", "global", "window", "self", "document",
    "send", "show", "__coven", "loadScript", "scriptArgs", "bjson", "Atomics", "gc", "load", "read_file",
]  # fmt: skip

JAVASCRIPT_ESCAPES = [
    "await import('fs')",
    "await import('std')",
    "await import('file:///etc/passwd')",
    "await import('data:text/javascript,export default 1')",
    "(function(){}).constructor('return process')()",
    "(() => {}).constructor('return require(\"fs\")')()",
    "(async () => {}).constructor('return await import(\"os\")')().then(x => { throw x })",
    "(function*(){}).constructor('return std')().next().value",
    "read.constructor('return process.env')()",
    "read.constructor.constructor('return this')().process.exit()",
    '[].constructor.constructor(\'return std.open("/etc/passwd", "r")\')()',
    "eval('require')('child_process')",
    "(0, eval)('process.exit(1)')",
    "new Function('return std')().open('/etc/passwd')",
    "read.caller()",
    "read.arguments[0]",
    "Reflect.construct(read, ['x'])",
    "globalThis.constructor.constructor('return process')().mainModule.require('fs')",
    "Error.prepareStackTrace = (e, frames) => frames; new Error().stack[0].getThis().process.exit()",
    "Object.getOwnPropertyDescriptor(globalThis, 'read').get.constructor('return process')()",
    "JSON.parse('{', (k, v) => v)",
    "document.cookie",
    "performance.constructor.constructor('return process')()",
    "print.call.call(process.exit, 0)",
    "new Proxy({}, {get: (t, k) => process[k]}).env.HOME",
]

PYTHON_ESCAPES = [
    "open('/etc/passwd').read()",
    "open('/tmp/escaped', 'w').write('x')",
    "import os\nos.system('true')",
    "import os\nos.listdir('/')",
    "import os\nos.environ['HOME']",
    "import os\nos.getenv('HOME')",
    "import os\nos.remove('/etc/passwd')",
    "import os\nos.kill(1, 9)",
    "from pathlib import Path\nPath('/etc/passwd').read_text()",
    "from pathlib import Path\nlist(Path('/').iterdir())",
    "from pathlib import Path\nPath('/tmp/escaped').write_text('x')",
    "import subprocess\nsubprocess.run(['true'])",
    "import socket\nsocket.socket()",
    "import urllib.request\nurllib.request.urlopen('http://localhost')",
    "import ctypes",
    "import multiprocessing",
    "import threading",
    "import importlib\nimportlib.import_module('os')",
    "import builtins\nbuiltins.open('/etc/passwd')",
    "import sys\nsys.exit(1)",
    "import sys\nsys.modules['os']",
    "import pickle",
    "import coven",
    "import leaves",
    "import pydantic_monty",
    "__import__('os').system('true')",
    "().__class__.__bases__[0].__subclasses__()",
    "(lambda: 0).__globals__['__builtins__']",
    "(lambda: 0).__code__",
    "read.__globals__",
    "read.__class__.__mro__",
    "read.__self__",
    "fs.__class__.__init__.__globals__",
    "fs.__dict__",
    "fs.__reduce__()",
    "fs.__class__('x').read_text('y')",
    "type(fs)().read_text.__globals__",
    "'{0.__class__.__mro__}'.format(fs)",
    "getattr(read, '__globals__')",
    "eval('__import__(\"os\")').system('true')",
    "exec('import os\\nos.system(\"true\")')",
    "compile('1', '', 'eval')",
    "globals()['__builtins__']",
    "vars()['__builtins__']",
    "input()",
    "breakpoint()",
    "exit()",
    "help(read)",
    "object().__reduce_ex__(2)",
    "import asyncio\nawait asyncio.create_subprocess_shell('true')",
    "import asyncio\nawait asyncio.open_connection('localhost', 80)",
]


def surroundings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    before = surroundings()
    yield
    assert surroundings() == before
    assert not Path("/tmp/escaped").exists()


class TestJavaScript:
    @pytest.mark.parametrize("name", JAVASCRIPT_NAMES)
    async def test_a_name_that_is_not_there(self, javascript: Entity, name: str) -> None:
        assert await javascript.value(f"typeof {name}") == "undefined"

    async def test_the_names_that_are_there(self, javascript: Entity) -> None:
        found = await javascript.value("Object.getOwnPropertyNames(globalThis).filter(n => /^[a-z_]/.test(n)).sort()")
        language = {
            "atob", "btoa",
            "decodeURI", "decodeURIComponent", "encodeURI", "encodeURIComponent", "escape", "eval", "globalThis",
            "isFinite", "isNaN", "parseFloat", "parseInt", "performance", "queueMicrotask", "undefined", "unescape",
        }  # fmt: skip
        gates = {"read", "echo", "fail", "slow", "fs", "call_agent", "call_agent_batch", "done", "submit_answer"}
        assert set(found) - language == gates | {"print", "console"}

    @pytest.mark.parametrize("code", JAVASCRIPT_ESCAPES)
    async def test_a_way_that_leads_nowhere(self, javascript: Entity, code: str) -> None:
        await javascript.value("var mine = 1")
        outcome = await javascript(code)
        assert outcome.ending is CodeEnding.RAISED, outcome
        assert not javascript.circle.calls
        assert await javascript.value("mine") == 1


class TestPython:
    @pytest.mark.parametrize("code", PYTHON_ESCAPES)
    async def test_a_way_that_leads_nowhere(self, python: Entity, code: str) -> None:
        await python.value("mine = 1")
        outcome = await python(code)
        assert outcome.ending is CodeEnding.RAISED, outcome
        assert not python.circle.calls
        assert await python.value("mine") == 1

    async def test_the_namespace_of_gates_tells_nothing(self, python: Entity) -> None:
        assert await python.value("fs") == "<gates>"
        assert await python.value("fs.__class__") == "<class 'Gates'>"
        assert (await python("read(fs)")).ending is CodeEnding.RAISED
        assert not python.circle.calls
