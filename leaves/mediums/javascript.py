"""The medium `javascript`: QuickJS, compiled to WebAssembly, in this process."""

from __future__ import annotations

import asyncio
import functools
import queue
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from branches.agents.gates import GateDefinition
from branches.agents.medium import Limits, SnapshotRefused
from leaves.mediums.names import code_gates, lines
from leaves.mediums.sealed import unseal

if TYPE_CHECKING:
    from leaves.mediums.quickjs.images import Base, Image
    from leaves.mediums.quickjs.sandbox import JavaScriptSandbox

_STARTING = threading.Lock()
_THREADS = 10_000
_RESERVED_WORDS = """
__proto__ Aggregate AggregateError Array ArrayBuffer Atomics BigInt BigInt64Array BigUint64Array Boolean DataView
Date Error EvalError FinalizationRegistry Float16Array Float32Array Float64Array Function Infinity Int16Array
Int32Array Int8Array InternalError Iterator JSON Map Math NaN Number Object Promise Proxy RangeError ReferenceError
Reflect RegExp Set SharedArrayBuffer String Symbol SyntaxError TypeError URIError Uint16Array Uint32Array Uint8Array
Uint8ClampedArray WeakMap WeakRef WeakSet arguments async await break case catch class console const constructor
continue debugger decodeURI decodeURIComponent default delete do else encodeURI encodeURIComponent enum escape eval
export extends false finally for function globalThis hasOwnProperty if implements import in instanceof interface
isFinite isNaN let new null of package parseFloat parseInt performance print private protected prototype public
queueMicrotask return static super switch this throw toString true try typeof undefined unescape valueOf var void
while with yield
"""
_RESERVED = frozenset(_RESERVED_WORDS.split())

_DESCRIPTION = """\
Run JavaScript (ECMAScript 2023, strict). Variables and functions stay for the next call, also after an error. You get \
back what the code printed with print() or console.log(), the value of its last expression, and its error if it failed.
There are no files, no network, no timers, no modules and no DOM: the only way out is these gates, which are ordinary \
functions. They return their result at once (no await needed) and throw an Error with name and message when they fail. \
Arguments go by position, or as one object: gate("a", 1) or gate({{first: "a", second: 1}}).
{gates}
The code's own time and memory are limited; the time that a gate takes does not count."""


class JavaScript:
    """Every sandbox is a memory of its own; `warm` of them keep their engine between turns, the others are images."""

    name = "javascript"

    def __init__(self, options: None = None, *, warm: int = 64) -> None:
        del options  # it has none; every leaf is made with its options
        self._most_warm = warm
        self._warm: OrderedDict[JavaScriptSandbox, None] = OrderedDict()
        self._open: weakref.WeakSet[JavaScriptSandbox] = weakref.WeakSet()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="coven-javascript")
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._dispatcher: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<JavaScript sandboxes={len(self._open)} warm={len(self._warm)}>"

    def describe(self, gates: Sequence[GateDefinition]) -> str:
        """See `Medium.describe`."""
        return _DESCRIPTION.format(gates=lines(code_gates(gates, _RESERVED)))

    async def open(
        self, gates: Sequence[GateDefinition], limits: Limits, snapshot: bytes | None = None
    ) -> JavaScriptSandbox:
        """See `Medium.open`. The first time it compiles the engine, which takes half a second."""
        from leaves.mediums.quickjs.sandbox import JavaScriptSandbox

        base = await asyncio.get_running_loop().run_in_executor(self._threads, engine)
        image = base.empty
        if snapshot is not None:
            most = base.room(limits.memory_bytes)
            image = await asyncio.to_thread(_unpack, base, snapshot, most)
        sandbox = JavaScriptSandbox(self, base, code_gates(gates, _RESERVED), limits, image)
        self._open.add(sandbox)
        return sandbox

    async def close(self) -> None:
        """See `Medium.close`."""
        for sandbox in list(self._open):
            await sandbox.close()
        self._waiting.put(None)
        self._threads.shutdown(wait=False)

    # ---- what sandboxes share

    def start(self, work: Callable[[], None]) -> None:
        """Run a turn on a thread of its own, once it is admitted. Returns at once: starting threads takes its time."""
        if self._dispatcher is None:
            self._dispatcher = threading.Thread(target=self._dispatch, name="coven-javascript-turns", daemon=True)
            self._dispatcher.start()
        self._waiting.put(work)

    def _dispatch(self) -> None:
        from leaves.mediums.quickjs.pace import admit

        while (work := self._waiting.get()) is not None:
            admit()
            try:
                self._threads.submit(work)
            except RuntimeError:  # the medium is closed, or the interpreter ends: the turn is abandoned and will see it
                threading.Thread(target=work, daemon=True).start()

    def used(self, sandbox: JavaScriptSandbox) -> None:
        """This sandbox keeps a guest; whoever used one longest ago lets go of it."""
        self._warm[sandbox] = None
        self._warm.move_to_end(sandbox)
        if len(self._warm) > self._most_warm:
            self._warm.popitem(last=False)[0].cool()

    def gone(self, sandbox: JavaScriptSandbox) -> None:
        """This sandbox is closed."""
        self._warm.pop(sandbox, None)
        self._open.discard(sandbox)


def _unpack(base: Base, snapshot: bytes, most: int) -> Image:
    try:
        image = base.from_bytes(unseal(JavaScript.name, base.identity, snapshot, 2 * most))
    except ValueError as error:
        raise SnapshotRefused(JavaScript.name, str(error)) from error
    if image.size > most:
        raise SnapshotRefused(JavaScript.name, f"its {image.size} bytes of memory are more than the {most} allowed")
    return image


def engine() -> Base:
    """What every sandbox begins as, made once in a process."""
    with _STARTING:
        return _engine()


@functools.cache
def _engine() -> Base:
    from leaves.mediums.quickjs.images import Base
    from leaves.mediums.quickjs.machine import Machine

    return Base(Machine())
