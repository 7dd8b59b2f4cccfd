"""The medium `python`: Monty, a Python written for code by models, in worker processes."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

from branches.agents.gates import GateDefinition
from branches.agents.medium import Limits, SnapshotRefused
from leaves.mediums.names import code_gates, lines
from leaves.mediums.sealed import unseal

if TYPE_CHECKING:
    from leaves.mediums.monty.sandbox import PythonSandbox
    from leaves.mediums.monty.workers import Workers

_RESERVED_WORDS = """
__import__ ArithmeticError AssertionError AttributeError BaseException Ellipsis Exception False IndexError KeyError
LookupError MemoryError NameError None NotImplemented NotImplementedError OSError OverflowError RecursionError
RuntimeError StopIteration SyntaxError TimeoutError True TypeError ValueError ZeroDivisionError abs all and any as
assert async asyncio await bin bool break breakpoint bytearray bytes callable case chr class classmethod compile
complex continue copyright credits def del delattr dict dir divmod elif else enumerate eval except exec exit filter
finally float for format from frozenset getattr global globals hasattr hash help hex id if import in input int is
isinstance issubclass iter lambda len license list locals map match max memoryview min next nonlocal not object oct
or ord pass pow print property quit raise range repr return reversed round set setattr slice sorted staticmethod str
sum super try tuple type vars while with yield zip
"""
_RESERVED = frozenset(_RESERVED_WORDS.split())

_DESCRIPTION = """\
Run Python (a small one: no third-party packages, no class inheritance, no generators; the standard library has \
json, re, math, random, datetime, time, itertools, functools, collections, dataclasses, hashlib, decimal and csv). \
Variables and functions stay for the next call, also after an error. You get back what the code printed, the value of \
its last expression, and its error if it failed.
There are no files, no network and no processes: the only way out is these gates, which are ordinary functions. They \
return their result at once and raise when they fail. Arguments go by position or by name: gate("a", second=1). \
Call them in loops and comprehensions; map() and sorted(key=) do not take them.
{gates}
The code's own time and memory are limited; the time that a gate takes does not count."""


class Python:
    """Every sandbox is a dump of a session; at most `workers` processes run what is computed at one time."""

    name = "python"

    def __init__(self, options: None = None, *, workers: int = 16, idle_s: float = 60.0) -> None:
        del options  # it has none; every leaf is made with its options
        self._most, self._idle_s = workers, idle_s
        self._workers: Workers | None = None
        self._open: weakref.WeakSet[PythonSandbox] = weakref.WeakSet()

    def __repr__(self) -> str:
        return f"<Python sandboxes={len(self._open)} {self._workers!r}>"

    @property
    def workers(self) -> Workers:
        """The processes that run what sandboxes compute."""
        assert self._workers is not None, "a sandbox was opened"
        return self._workers

    def describe(self, gates: Sequence[GateDefinition]) -> str:
        """See `Medium.describe`."""
        return _DESCRIPTION.format(gates=lines(code_gates(gates, _RESERVED)))

    async def open(
        self, gates: Sequence[GateDefinition], limits: Limits, snapshot: bytes | None = None
    ) -> PythonSandbox:
        """See `Medium.open`."""
        from leaves.mediums.monty.sandbox import PythonSandbox
        from leaves.mediums.monty.workers import Workers

        if self._workers is None:
            self._workers = Workers(self._most, self._idle_s)
        engine = _engine(limits)
        state = None if snapshot is None else unseal(self.name, engine, snapshot, 4 * limits.memory_bytes) or None
        if state is not None:
            await self._try(self._workers, limits, state)
        sandbox = PythonSandbox(self._workers, code_gates(gates, _RESERVED), limits, engine, state)
        self._open.add(sandbox)
        return sandbox

    async def close(self) -> None:
        """See `Medium.close`."""
        for sandbox in list(self._open):
            await sandbox.close()
        if self._workers is not None:
            await self._workers.close()

    async def _try(self, workers: Workers, limits: Limits, state: bytes) -> None:
        from pydantic_monty import MontyError

        session = await workers.take(limits)
        try:
            await session.load_session(state)
        except MontyError as error:
            raise SnapshotRefused(self.name, str(error)) from error
        finally:
            await workers.give(session)


def _engine(limits: Limits) -> bytes:
    """What must be the same to restore a dump: it carries its limits with it."""
    versions = "".join(version(name) for name in ("pydantic-monty", "pydantic-monty-runtime"))
    return f"{versions} {limits.cpu_s} {limits.memory_bytes}".encode()
