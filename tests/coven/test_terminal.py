"""What is said beside the conversation: never on standard output, which is somebody else's."""

from __future__ import annotations

import sys

import pytest

from coven.terminal import tell


def test_what_is_said_goes_to_standard_error_as_it_is_where_that_is_no_terminal(capsys: pytest.CaptureFixture[str]):
    tell("word " * 60)
    assert capsys.readouterr() == ("", "word " * 60 + "\n")


def test_nothing_is_said_where_standard_error_is_closed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "stderr", None)
    tell("nobody hears this")
    assert capsys.readouterr().out == ""


def test_what_others_said_does_not_steer_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("coven.terminal._columns", lambda: 80)
    tell("coven: the provider says \x1b[31mno\x07")
    assert capsys.readouterr().err == "coven: the provider says [31mno\n"
