"""Credentials in an address are not shown."""

from __future__ import annotations

import pytest

from journals import StoreUnavailable
from journals._jetstream import JetStreamStore
from journals._server._ports import choose_port
from journals._urls import without_credentials


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("nats://localhost:4222", "nats://localhost:4222"),
        ("nats://user:secret@host:4222", "nats://host:4222"),
        ("nats://secret@host", "nats://host"),
        ("tls://user:sec@ret@host:4222", "tls://host:4222"),
        ("nats://a:secret@one,nats://a:secret@two:1", "nats://one,nats://two:1"),
        ("localhost:4222", "localhost:4222"),
    ],
)
def test_only_the_address_is_shown(url: str, shown: str) -> None:
    assert without_credentials(url) == shown


async def test_an_error_of_the_store_shows_none() -> None:
    with pytest.raises(StoreUnavailable, match="no NATS server answers at nats://127") as caught:
        await JetStreamStore.connect(f"nats://user:canary@127.0.0.1:{choose_port()}", "hearth")
    assert "canary" not in str(caught.value)
