"""The tool turn in DBOS, a step for each model call and each tool call, in two ways.

As a workflow for each message, with a step that sends the answer: what a person said, and that the answer was sent,
are then as durable as they are with us. And with less: one workflow for the whole conversation, which is told what to
do by a queue in memory, and whose answers go nowhere. What was said before is kept in memory, where it costs nothing.

SQLite is set to WAL and `synchronous=NORMAL`, which is faster than what DBOS sets itself, and as durable as our profile
`process`.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.seats import serve


def play(connection: Connection, folder: Path, *, whole: bool) -> None:
    """A conversation; `whole` with what comes in and goes out."""
    conversation = _Conversation(folder, whole)
    serve(connection, conversation)
    conversation.close()


class _Conversation:
    def __init__(self, folder: Path, whole: bool) -> None:
        import sqlalchemy
        from dbos import DBOS
        from sqlalchemy.engine import Engine

        @sqlalchemy.event.listens_for(Engine, "connect")
        def settings(connection: Any, _: Any) -> None:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")

        self._file = folder / "dbos.sqlite"
        self._dbos, self._turns = DBOS, 0
        self._asked: queue.Queue[int] = queue.Queue()
        self._answered: queue.Queue[list[float]] = queue.Queue()
        DBOS(
            config={
                "name": "benchmark",
                "system_database_url": f"sqlite:///{self._file}",
                "run_admin_server": False,
                "log_level": "ERROR",
            }
        )

        @DBOS.step()
        def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
            last = messages[-1]
            if last["role"] == "tool":
                return {"role": "assistant", "content": f"it said {last['content']}"}
            return {"role": "assistant", "tool_calls": [{"id": "t1", "name": "echo", "arguments": {"text": "hello"}}]}

        @DBOS.step()
        def echo(text: str) -> dict[str, Any]:
            return {"role": "tool", "tool_call_id": "t1", "content": text}

        @DBOS.step()
        def send(text: str) -> None:
            assert text

        messages: list[dict[str, Any]] = []

        def turn(text: str) -> str:
            messages.append({"role": "user", "content": text})
            said = model(messages)
            messages.append(said)
            messages.append(echo(said["tool_calls"][0]["arguments"]["text"]))
            messages.append(model(messages))
            return messages[-1]["content"]

        @DBOS.workflow()
        def answer(text: str) -> None:
            send(turn(text))

        @DBOS.workflow()
        def converse() -> None:
            play(turn)

        def play(one: Callable[[str], object]) -> None:
            while turns := self._asked.get():
                took: list[float] = []
                for _ in range(turns):
                    began = time.perf_counter()
                    one("please echo")
                    took.append((time.perf_counter() - began) * 1000)
                self._answered.put(took)

        DBOS.launch()
        self._working = threading.Thread(target=(lambda: play(answer)) if whole else converse, daemon=True)
        self._working.start()

    def advance(self, turns: int) -> None:
        """By playing all of them."""
        if turns > self._turns:
            self.play(turns - self._turns)

    def play(self, turns: int) -> list[float]:
        """In a thread of their own, as workflows run."""
        self._asked.put(turns)
        self._turns += turns
        return self._answered.get()

    def stored(self) -> int:
        """With what the log before the database holds."""
        import sqlite3

        with sqlite3.connect(self._file) as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            (size,) = connection.execute("PRAGMA page_size").fetchone()
        return pages * size

    def close(self) -> None:
        """The workflow ends, and DBOS with it."""
        self._asked.put(0)
        self._working.join(10)
        self._dbos.destroy()
