"""Contestants in processes of their own, so that none pays for another's memory, threads or timers."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import msgspec


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Some turns: milliseconds of each, processor seconds of all, and bytes that were stored meanwhile."""

    took: list[float]
    cpu: float
    server_cpu: float = 0.0
    stored: float = 0.0


class Player(Protocol):
    """A conversation that goes on turn by turn."""

    def advance(self, turns: int) -> None:
        """Come to where so many turns lie behind, as cheaply as may be."""
        ...

    def play(self, turns: int) -> list[float]:
        """So many turns; gives milliseconds."""
        ...

    def stored(self) -> int:
        """Bytes stored so far."""
        ...


class Seat:
    """One contestant in a process of its own; `target(connection, folder, ...)` is what runs there."""

    def __init__(self, target: Callable[..., None], *arguments: Any) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="coven-benchmark-")
        spawn = multiprocessing.get_context("spawn")
        self._connection, theirs = spawn.Pipe()
        self._process = spawn.Process(target=target, args=(theirs, Path(self._folder.name), *arguments), daemon=True)
        self._process.start()
        theirs.close()

    def ask(self, what: str, *arguments: Any) -> Any:
        """Have something done there and wait for it. Raises `EOFError` if that process has ended."""
        self._connection.send((what, *arguments))
        return self._connection.recv()

    def measure(self, turns: int) -> Measured:
        """So many turns, measured."""
        return self.ask("measure", turns)

    def close(self) -> None:
        """End the process and remove what it stored."""
        self._connection.close()
        self._process.join(30)
        self._process.kill()
        self._process.join()
        self._folder.cleanup()


def serve(connection: Connection, player: Player) -> None:
    """Do what a seat is asked for, until it is closed."""
    while True:
        try:
            what, turns = connection.recv()
        except EOFError:
            return
        connection.send(measured(player, turns) if what == "measure" else player.advance(turns))


def measured(player: Player, turns: int) -> Measured:
    """Play some turns and measure them."""
    stored, cpu = player.stored(), time.process_time()
    took = player.play(turns)
    return Measured(took=took, cpu=time.process_time() - cpu, stored=player.stored() - stored)
