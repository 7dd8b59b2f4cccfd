"""What a sandbox remembers between turns: the memory of a guest, as what differs from the one all begin with."""

from __future__ import annotations

import ctypes
import hashlib
import struct
import sys
from importlib.resources import files

import msgspec

from leaves.mediums.quickjs.guest import OK, Guest, Trapped
from leaves.mediums.quickjs.machine import Machine

_PAGE = 4096
_STRIDE = 4 * _PAGE  # a WebAssembly page is four of these
_BLANK = bytes(_PAGE)
_HEAD = struct.Struct("<QI")
_BOOT_BYTES = 64 * 1024 * 1024
_BOOTSTRAP = (files("leaves.mediums.quickjs") / "bootstrap.js").read_bytes()
_c = ctypes.PyDLL("msvcrt" if sys.platform == "win32" else None)  # its functions keep the interpreter's lock
_compare = _c.memcmp
_compare.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Image(msgspec.Struct, frozen=True):
    """The memory of a guest between two turns: its size, its stack pointer, and the pages that differ."""

    size: int
    stack: int
    pages: dict[int, bytes]

    def to_bytes(self) -> bytes:
        """All of it, for `Base.from_bytes`."""
        numbers = b"".join(n.to_bytes(4, "little") for n in self.pages)
        head = _HEAD.pack(self.size, self.stack) + len(self.pages).to_bytes(4, "little")
        return b"".join((head, numbers, *self.pages.values()))


class Mirrored:
    """A guest and a copy of its memory as it last was, so that only what a turn changed is looked at and kept."""

    def __init__(self, guest: Guest, image: Image, base: list[bytes]) -> None:
        self.guest, self._image, self._base = guest, image, base
        self._copy = ctypes.create_string_buffer(image.size)
        ctypes.memmove(self._copy, guest.address(0, image.size), image.size)

    def __repr__(self) -> str:
        return f"<Mirrored {self.guest!r} pages={len(self._image.pages)}>"

    @property
    def memory_bytes(self) -> int:
        """What it costs to keep it."""
        return self.guest.size + len(self._copy)

    def capture(self) -> Image:
        """What the guest is now."""
        guest, before = self.guest, self._image
        size, here = guest.size, guest.address(0, guest.size)
        if size > before.size:
            grown = ctypes.create_string_buffer(size)
            ctypes.memmove(grown, self._copy, before.size)
            self._copy = grown
        there = ctypes.addressof(self._copy)
        pages = dict(before.pages)
        for at in range(0, size, _STRIDE):
            if _compare(here + at, there + at, _STRIDE):
                ctypes.memmove(there + at, here + at, _STRIDE)
                self._note(pages, at // _PAGE, ctypes.string_at(here + at, _STRIDE))
        self._image = Image(size, guest.stack, pages)
        return self._image

    def _note(self, pages: dict[int, bytes], first: int, data: bytes) -> None:
        base = self._base
        for number in range(first, first + _STRIDE // _PAGE):
            page = data[(number - first) * _PAGE : (number - first + 1) * _PAGE]
            if page == (base[number] if number < len(base) else _BLANK):
                pages.pop(number, None)
            else:
                pages[number] = page


class Base:
    """The guest that every sandbox begins as: the engine started and the bootstrap run, the same in every process."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        guest = Guest(machine, _BOOT_BYTES)
        status, boot = guest.evaluate(_BOOTSTRAP)
        if status != OK:
            raise Trapped("the bootstrap does not compile")
        arguments = guest.write(
            b"".join(guest.function(name).to_bytes(4, "little", signed=True) for name in ("send", "show"))
        )
        out = guest.call("qjs_alloc", 4)
        if guest.call("call_function", boot, guest.call("new_undefined"), arguments, 2, out) != OK:
            raise Trapped("the bootstrap does not run")
        interface = int.from_bytes(guest.peek(out, 4), "little", signed=True)
        self.begin, self.finish, self.explain = (
            guest.member(interface, name) for name in ("begin", "finish", "explain")
        )
        guest.call("run_gc")
        self._memory, stack = guest.peek(0, guest.size), guest.stack
        guest.close()
        self._pages = [self._memory[at : at + _PAGE] for at in range(0, len(self._memory), _PAGE)]
        self.empty = Image(len(self._memory), stack, {})
        self.identity = hashlib.sha256(machine.build + self._memory).digest()

    def __repr__(self) -> str:
        return f"<Base {len(self._memory) // 1024} KB of {self.machine.version}>"

    def revive(self, image: Image, memory_bytes: int) -> Mirrored:
        """A guest that is as the image says. Its code may use `memory_bytes` of memory."""
        guest = Guest(self.machine, self.room(memory_bytes))
        guest.restore(image.size, image.stack)
        guest.poke(0, self._memory)
        for number, page in image.pages.items():
            guest.poke(number * _PAGE, page)
        return Mirrored(guest, image, self._pages)

    def room(self, memory_bytes: int) -> int:
        """How large the memory of a guest may grow whose code may use so much: the engine's own comes on top.

        This alone holds: the engine's limit counts the pieces of memory and not their size.
        """
        return len(self._memory) + memory_bytes

    def from_bytes(self, data: bytes) -> Image:
        """An image again. Raises `ValueError` if it cannot be one."""
        if len(data) < _HEAD.size + 4:
            raise ValueError("it ends too early")
        size, stack = _HEAD.unpack_from(data)
        count = int.from_bytes(data[_HEAD.size : _HEAD.size + 4], "little")
        start = _HEAD.size + 4
        body = start + 4 * count
        numbers = [int.from_bytes(data[at : at + 4], "little") for at in range(start, body, 4)]
        whole = size % _PAGE == 0 and size >= len(self._memory) and stack <= size
        if not whole or len(data) != body + _PAGE * count or any((n + 1) * _PAGE > size for n in numbers):
            raise ValueError("its parts do not fit together")
        pages = {number: data[body + _PAGE * n : body + _PAGE * (n + 1)] for n, number in enumerate(numbers)}
        return Image(size, stack, pages)
