"""A secret is read when it is used, and shown nowhere."""

from __future__ import annotations

import pickle

import msgspec
import pytest

from branches.secret import Secret, SecretUnset

CANARY = "canary-5b1c9e"
SECRET = Secret("Bearer ${API_KEY}", {"API_KEY": CANARY})


def test_only_reveal_gives_the_value() -> None:
    assert SECRET.reveal() == f"Bearer {CANARY}"


def test_it_is_shown_by_its_variable() -> None:
    assert repr(SECRET) == "Secret('Bearer ${API_KEY}')"
    assert SECRET.variables == ("API_KEY",)
    for text in (str(SECRET), f"{SECRET}", repr([SECRET]), f"{SECRET!r}", repr(SecretUnset("API_KEY"))):
        assert CANARY not in text


def test_it_is_written_nowhere() -> None:
    with pytest.raises(TypeError):
        msgspec.json.encode(SECRET)
    with pytest.raises(TypeError, match="not written"):
        pickle.dumps(SECRET)


def test_it_is_read_late() -> None:
    environ: dict[str, str] = {}
    secret = Secret("${LATER}", environ)
    with pytest.raises(SecretUnset, match="LATER is not set"):
        secret.reveal()
    environ["LATER"] = "now"
    assert secret.reveal() == "now"


def test_an_empty_variable_is_not_set() -> None:
    with pytest.raises(SecretUnset):
        Secret("${EMPTY}", {"EMPTY": ""}).reveal()


def test_a_doubled_dollar_is_a_plain_one() -> None:
    secret = Secret("$${A} ${B}", {"A": "1", "B": "2"})
    assert secret.reveal() == "${A} 2"
    assert secret.variables == ("B",)


def test_secrets_of_one_text_are_equal() -> None:
    assert Secret("${A}", {}) == Secret("${A}", {"A": "1"})
    assert len({Secret("${A}", {}), Secret("${A}", {}), Secret("${B}", {})}) == 2
