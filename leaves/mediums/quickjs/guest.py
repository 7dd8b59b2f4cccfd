"""One instance of QuickJS: a linear memory with the engine and everything that code made in it."""

from __future__ import annotations

import ctypes
from typing import Any, Protocol, cast

import wasmtime

from leaves.mediums.quickjs import foreign
from leaves.mediums.quickjs.machine import Machine, current

OK, RAISED = 0, 1
"""What the guest answers to a call that runs code."""

PENDING, FULFILLED = 0, 1
"""States of a promise; anything else is rejected."""


class Trapped(Exception):
    """The instance stopped in the middle and can never run again."""


class Occupant(Protocol):
    """Whom a guest calls while it runs. All of it happens on the thread that runs the guest."""

    def entered(self, function: str, arguments: list[str]) -> str | None:
        """The code called a host function."""
        ...

    def interrupted(self) -> bool:
        """Whether the code must stop here, uncatchably; asked every few thousand steps of it."""
        ...

    def overdue(self) -> bool:
        """Whether the instance must be given up, because a built-in does not ask; asked every `TICK_S`."""
        ...

    def now(self) -> float:
        """Unix seconds, as the code shall see them."""
        ...


class Guest:
    """Used by one thread at a time. `occupant` is set for as long as code runs in it."""

    def __init__(self, machine: Machine, memory_bytes: int) -> None:
        self._machine = machine
        self.store = wasmtime.Store(machine.engine)
        self.store.set_limits(memory_size=memory_bytes)
        foreign.watch(self.store, _watcher)
        instance = machine.linker.instantiate(self.store, machine.module)
        self._exports = instance.exports(self.store)
        self._functions: dict[str, Any] = {}
        self._memory = cast(wasmtime.Memory, self._exports["memory"])
        self._stack = cast(wasmtime.Global, self._exports["__stack_pointer"])
        self.occupant: Occupant | None = None
        self._failure: BaseException | None = None

    def __repr__(self) -> str:
        return f"<Guest {self.size // 1024} KB{' running' if self.occupant else ''}>"

    @property
    def size(self) -> int:
        """Bytes of its memory. They only ever grow."""
        return self._memory.data_len(self.store)

    def close(self) -> None:
        """Give the memory back."""
        self.store.close()

    # ---- calls into the guest

    def call(self, name: str, *arguments: int) -> int:
        """Call one of its exports. Raises `Trapped`, or what a host function raised."""
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = foreign.function(self._exports[name])
        outer, current.guest = current.guest, self
        try:
            result, trapped = foreign.call(self.store, function, arguments)
        finally:
            current.guest = outer
        if trapped is not None:
            failure, self._failure = self._failure, None
            raise Trapped(trapped) if failure is None else failure
        return result

    def evaluate(self, code: bytes, *, awaits: bool = False) -> tuple[int, int]:
        """Run a script: status, and a handle to its value."""
        at = self.write(code)
        out = self.call("qjs_alloc", 4)
        try:
            status = self.call("eval_async" if awaits else "eval_code", at, len(code), out)
            return status, self._slot(out)
        finally:
            self.call("qjs_free", at, len(code))
            self.call("qjs_free", out, 4)

    def invoke(self, function: int, argument: int) -> tuple[int, int]:
        """Call a function by handle with one argument: status, and a handle to what it gave."""
        this = self.call("new_undefined")
        arguments = self.write(argument.to_bytes(4, "little", signed=True))
        out = self.call("qjs_alloc", 4)
        try:
            status = self.call("call_function", function, this, arguments, 1, out)
            return status, self._slot(out)
        finally:
            self.call("qjs_free", arguments, 4)
            self.call("qjs_free", out, 4)
            self.call("free_value", this)

    def thrown(self) -> int | None:
        """A handle to the error that is pending, which is taken."""
        out = self.call("qjs_alloc", 4)
        try:
            return self._slot(out) if self.call("last_exception", out) == OK else None
        finally:
            self.call("qjs_free", out, 4)

    def promise(self, handle: int) -> tuple[int, int] | None:
        """State and result of a promise; None if it is none."""
        out = self.call("qjs_alloc", 4)
        try:
            if self.call("is_promise", handle, out) != OK or not self._slot(out):
                return None
            self.call("promise_state", handle, out)
            state = self._slot(out)
            if state == PENDING:
                return state, 0
            self.call("promise_result", handle, out)
            return state, self._slot(out)
        finally:
            self.call("qjs_free", out, 4)

    def member(self, handle: int, name: str) -> int:
        """A handle to a property, which must be there."""
        at = self.write(name.encode())
        out = self.call("qjs_alloc", 4)
        try:
            if self.call("get_prop", handle, at, len(name), out) != OK:
                raise Trapped(f"there is no property {name}")
            return self._slot(out)
        finally:
            self.call("qjs_free", at, len(name))
            self.call("qjs_free", out, 4)

    def function(self, name: str) -> int:
        """A handle to a function of the guest that calls `Occupant.entered` by this name."""
        at = self.write(name.encode())
        try:
            return self.call("new_function", at, len(name))
        finally:
            self.call("qjs_free", at, len(name))

    def string(self, text: str) -> int:
        """A handle to a string."""
        data = text.encode("utf-8", "replace")
        at = self.write(data)
        try:
            return self.call("new_string", at, len(data))
        finally:
            self.call("qjs_free", at, len(data))

    def text(self, handle: int) -> str:
        """A string by its handle."""
        if self.call("get_string", handle) != OK:
            raise Trapped("what should be a string is none")
        length = self.call("qjs_last_len")
        data = self.peek(self.call("qjs_last_ptr"), length) if length else b""
        self.call("qjs_result_free")
        return data.decode("utf-8", "replace")

    def free(self, handle: int) -> None:
        """Let go of a handle."""
        self.call("free_value", handle)

    # ---- its memory

    def write(self, data: bytes) -> int:
        """Put bytes into memory of the guest's own. Raises `Trapped` if it has none left."""
        at = self.call("qjs_alloc", len(data))
        if at == 0 and data:
            raise Trapped("out of memory")
        self.poke(at, data)
        return at

    def peek(self, at: int, length: int) -> bytes:
        """Bytes of its memory. Raises `Trapped` outside of it."""
        return ctypes.string_at(self.address(at, length), length)

    def poke(self, at: int, data: bytes) -> None:
        """Write bytes into its memory. Raises `Trapped` outside of it."""
        ctypes.memmove(self.address(at, len(data)), data, len(data))

    @property
    def stack(self) -> int:
        """Its stack pointer."""
        return self._stack.value(self.store)

    def restore(self, size: int, stack: int) -> None:
        """Make room for an image, which is then written with `poke`."""
        if size > self.size:
            self._memory.grow(self.store, (size - self.size + 65535) // 65536)
        self._stack.set_value(self.store, stack)

    def address(self, at: int, length: int) -> int:
        """Where a piece of its memory is in this process, until it next runs. Raises `Trapped` outside of it."""
        at &= 0xFFFFFFFF
        if length < 0 or at + length > self.size:
            raise Trapped(f"memory at {at} for {length} bytes is outside of the guest")
        base = ctypes.cast(self._memory.data_ptr(self.store), ctypes.c_void_p).value
        assert base is not None
        return base + at

    def _slot(self, at: int) -> int:
        return int.from_bytes(self.peek(at, 4), "little", signed=True)

    # ---- what the guest calls

    def entered(self, name_at: int, name_length: int, _this: int, count: int, arguments_at: int) -> int:
        """A host function was called."""
        name = self.peek(name_at, name_length).decode()
        handles = [self._slot(arguments_at + 4 * n) for n in range(count)]
        occupant = self.occupant
        assert occupant is not None, "code runs only for somebody"
        answer = occupant.entered(name, [self.text(handle) for handle in handles])
        return self.call("new_undefined") if answer is None else self.string(answer)

    def interrupted(self) -> int:
        """Whether the code must stop."""
        return int(self.occupant is not None and self.occupant.interrupted())

    def overdue(self) -> bool:
        """Whether it must be given up."""
        return self.occupant is not None and self.occupant.overdue()

    def failed(self, error: BaseException) -> None:
        """A host function raised: `call` raises it again."""
        self._failure = error

    def now(self) -> float:
        """The clock; before there is anybody to ask, the beginning of time."""
        return 0.0 if self.occupant is None else self.occupant.now()


_watcher = foreign.watcher(lambda: current.guest.overdue(), lambda error: current.guest.failed(error))
