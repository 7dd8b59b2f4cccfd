"""The few calls into wasmtime's C interface that its Python package does not offer in a form that serves.

Calls through it look a function's type up every time, and what a host function raises goes through one variable of the
whole process, where another thread may pick it up. Here a call costs a tenth, and a failing host function returns a
trap of its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from importlib import import_module
from typing import Any

import wasmtime

_c: Any = import_module("wasmtime._ffi")
_NO_FINALIZER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(0)
_MOST = 5
_Slots: Any = _c.wasmtime_val_raw_t * _MOST
_pointer: Any = ctypes.POINTER
_Context: Any = _pointer(_c.wasmtime_context_t)
_Kind: Any = _pointer(_c.wasmtime_update_deadline_kind_t)
_Trap: Any = _pointer(_c.wasm_trap_t)
_Watcher: Any = ctypes.CFUNCTYPE(ctypes.c_size_t, _Context, ctypes.c_void_p, _pointer(ctypes.c_uint64), _Kind)


def function(exported: Any) -> Any:
    """What `call` takes, of an export."""
    return exported._func


def call(store: wasmtime.Store, function: Any, arguments: tuple[int, ...]) -> tuple[int, str | None]:
    """Call a function of numbers of 32 bits: what it returned, and why it trapped if it did."""
    slots = _Slots()
    for n, argument in enumerate(arguments):
        slots[n].i32 = argument
    trap: Any = _Trap()
    handle: Any = store
    error = _c.wasmtime_func_call_unchecked(handle._context(), ctypes.byref(function), slots, _MOST, ctypes.byref(trap))
    if not error and not trap:
        return slots[0].i32, None
    kind: Any = wasmtime.WasmtimeError if error else wasmtime.Trap
    return 0, str(kind._from_ptr(error or trap))


def callback(
    parameters: str, results: str, function: Callable[..., Any], failed: Callable[[BaseException], None]
) -> Any:
    """A host function; each letter is a number, `i` of 32 bits, `l` of 64. What it raises goes to `failed`: a trap."""
    wide = tuple(letter == "l" for letter in parameters)

    def enter(_env: Any, _caller: Any, slots: Any, _count: int) -> int:
        try:
            answer = function(*(slots[n].i64 if is_wide else slots[n].i32 for n, is_wide in enumerate(wide)))
            if results:
                slots[0].i32 = answer
        except BaseException as error:  # noqa: BLE001  it must not be lost in C
            failed(error)
            message = b"the host failed"
            return _address(_c.wasmtime_trap_new(ctypes.create_string_buffer(message), len(message)))
        return 0

    return _c.wasmtime_func_unchecked_callback_t(enter)


def define(linker: wasmtime.Linker, module: str, name: str, parameters: str, results: str, callback: Any) -> None:
    """Link a host function. The callback must be kept for as long as the linker."""
    types = {"i": wasmtime.ValType.i32, "l": wasmtime.ValType.i64}
    signature = wasmtime.FuncType([types[p]() for p in parameters], [types[r]() for r in results])
    names = [part for text in (module, name) for part in (ctypes.create_string_buffer(text.encode()), len(text))]
    error = _c.wasmtime_linker_define_func_unchecked(
        linker.ptr(), *names, signature.ptr(), callback, None, _NO_FINALIZER
    )
    if error:
        kind: Any = wasmtime.WasmtimeError
        raise kind._from_ptr(error)


def watcher(overdue: Callable[[], bool], failed: Callable[[BaseException], None]) -> Any:
    """For `watch`: asked at every tick of the engine; when `overdue` says so the instance traps."""

    def look(_context: Any, _data: Any, ticks: Any, kind: Any) -> int:
        try:
            if overdue():
                return _address(_c.wasmtime_error_new(ctypes.create_string_buffer(b"overdue")))
        except BaseException as error:  # noqa: BLE001  it must not be lost in C
            failed(error)
            return _address(_c.wasmtime_error_new(ctypes.create_string_buffer(b"the host failed")))
        ticks[0], kind[0] = 1, 0
        return 0

    return _Watcher(look)


def watch(store: wasmtime.Store, watcher: Any) -> None:
    """Look at a store from now on. The watcher must be kept for as long as the store."""
    store.set_epoch_deadline(1)
    _c.wasmtime_store_epoch_deadline_callback(store.ptr(), watcher, None, _NO_FINALIZER)


def _address(pointer: Any) -> int:
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0
