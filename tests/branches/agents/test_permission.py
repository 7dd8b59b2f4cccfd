"""The switch that forbids requests to real models."""

from __future__ import annotations

import pytest

from branches.agents.permission import VARIABLE, ModelRequestForbidden, require_permission
from coven.testing import Forbidding, forbid_model_requests


@pytest.fixture(autouse=True)
def nothing_forbids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("branches.agents.permission._forbidden", [])


def test_requests_are_permitted_unless_somebody_forbids_them() -> None:
    require_permission("anthropic")


def test_while_they_are_forbidden_one_raises_and_says_what_to_do() -> None:
    with forbid_model_requests():
        with pytest.raises(ModelRequestForbidden, match=r"a request to anthropic.*coven\.testing\.ScriptedCrystal"):
            require_permission("anthropic")
        with forbid_model_requests():
            pass
        with pytest.raises(ModelRequestForbidden):
            require_permission("openai")
    require_permission("anthropic")


def test_forbidding_holds_from_the_call_on() -> None:
    forbidding: Forbidding = forbid_model_requests()
    assert repr(forbidding) == "<Forbidding holds>"
    with pytest.raises(ModelRequestForbidden):
        require_permission("anthropic")
    forbidding.allow()
    forbidding.allow()
    require_permission("anthropic")
    assert repr(forbidding) == "<Forbidding is over>"


@pytest.mark.parametrize("value", ["1", "yes"])
def test_the_environment_forbids_too(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(ModelRequestForbidden, match=VARIABLE):
        require_permission("anthropic")


@pytest.mark.parametrize("value", ["0", ""])
def test_the_environment_need_not_forbid(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, value)
    require_permission("anthropic")
