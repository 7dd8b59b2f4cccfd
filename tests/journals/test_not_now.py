"""A server that answers and does not take a write is asked again with pauses, and not for ever."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from journals import Draft, FenceRefused, Journal, MemoryStore, Store, StoreUnavailable, Unacknowledged
from journals import _attempts as attempts
from journals._attempts import Attempts
from journals._cursor import Term
from tests.journals.flaky import flaky
from tests.journals.kinds import Said, registry


def unwilling(_: int) -> str:
    return "before"


WRITES: dict[str, Callable[[Journal], Awaitable[Any]]] = {
    "append": lambda journal: journal.append(Said(text="x"), session="s"),
    "append_all": lambda journal: journal.append_all([Draft(entry=Said(text="x"), session="s", id="a")]),
    "claim": lambda journal: journal.claim("s", "me"),
    "cursor": lambda journal: journal.cursor("route", "me", Term("first", 1)).take("first"),
}


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_that_is_never_taken_ends_with_a_message(store: Store, write: str) -> None:
    inner = await store.open("chat", registry())
    journal = flaky(inner, unwilling, patience=0.05)
    with pytest.raises(StoreUnavailable, match=r"has not taken this.*lost on the way.*coven doctor"):
        await WRITES[write](journal)
    assert journal.log.operations < 20  # type: ignore[attr-defined]
    assert [record async for record in inner.read()] == []
    await WRITES[write](inner)  # and whoever comes next finds nothing in the way


async def test_pauses_grow_and_a_fence_that_is_refused_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(attempts.asyncio, "sleep", note)
    trying = Attempts(30)
    for _ in range(10):
        await trying.failed(Unacknowledged("not now"))
    assert pauses == [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0]
    assert repr(trying) == "<Attempts 10 failed, 3.27 of 30.00 s spent>"
    await trying.failed(FenceRefused("moved on"))
    pauses.clear()
    await trying.failed(Unacknowledged("not now"))
    assert pauses == []


async def test_what_is_taken_in_the_end_is_written_once() -> None:
    store = MemoryStore()
    journal = flaky(await store.open("chat", registry()), {1: "before", 2: "before", 3: "after"}.get)
    assert (await journal.append(Said(text="x"), session="s", id="a")).created
    assert [record.id async for record in journal.read()] == ["a"]
