"""What a request may name as its host where there is no token: this machine alone, and nothing that only looks so."""

from __future__ import annotations

import pytest

from leaves.loopback import is_loopback, without_port


@pytest.mark.parametrize("header", ["localhost", "LOCALHOST:8383", "127.0.0.1", "127.0.0.2:80", "[::1]", "[::1]:8383"])
def test_what_names_this_machine(header: str):
    assert is_loopback(without_port(header))


@pytest.mark.parametrize(
    "header",
    [
        "",
        ":80",
        "::1",
        "10.0.0.1:80",
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example:80",
        "localhost:80@evil.example",
        "localhost@evil.example",
        "[::1].evil.example",
        "[::1]evil.example:80",
        "[::1",
    ],
)
def test_what_names_another_or_nothing(header: str):
    assert not is_loopback(without_port(header))
