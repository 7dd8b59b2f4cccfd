"""Only one allowed program runs, and no reading of its arguments as paths leads out of the workspace."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branches.spellcasting import SpellFailed
from leaves.spells.command import Command, parse_command
from leaves.spells.shell import DENIED

ALLOW = ("cat", "ls", "echo", "pwd")
PATH = "/usr/local/bin:/usr/bin:/bin"


def parse(cmd: str, root: Path, allow: tuple[str, ...] = ALLOW, *, network: bool = False) -> Command:
    return parse_command(cmd, allow=allow, deny=DENIED, path=PATH, root=str(root), network=network)


def refused(cmd: str, root: Path, allow: tuple[str, ...] = ALLOW) -> SpellFailed:
    with pytest.raises(SpellFailed) as failure:
        parse(cmd, root, allow)
    return failure.value


@pytest.mark.parametrize(
    ("cmd", "words"),
    [
        ("pwd", ["pwd"]),
        ("ls -la --color=never sub/dir", ["ls", "-la", "--color=never", "sub/dir"]),
        ("cat 'my notes' \"and more\" plain\\ name", ["cat", "my notes", "and more", "plain name"]),
        ("cat sub/../a ./a sub/.hidden ...", ["cat", "sub/../a", "./a", "sub/.hidden", "..."]),
        ("cat link-inside", ["cat", "link-inside"]),
        ("echo 10:30, (really?) 50% off = a+b ~ #no-comment", None),
        ("echo $HOME * ~", ["echo", "$HOME", "*", "~"]),
        ("echo grün 日本/語", ["echo", "grün", "日本/語"]),
    ],
)
def test_ordinary_commands_pass_word_by_word(workspace: Path, cmd: str, words: list[str] | None):
    (workspace / "sub").mkdir()
    (workspace / "a").touch()
    (workspace / "link-inside").symlink_to("sub/../a")
    command = parse(cmd, workspace)
    assert list(command.argv) == (words or shlex.split(cmd))
    assert command.program in {f"{folder}/{command.argv[0]}" for folder in PATH.split(":")}


@pytest.mark.parametrize(
    "cmd",
    [
        "ls ; touch pwned",
        "ls;touch pwned",
        "ls && touch pwned",
        "ls || touch pwned",
        "ls | cat",
        "ls & touch pwned",
        "echo $(touch pwned)",
        "echo `touch pwned`",
        "echo ${HOME}",
        "ls\ntouch pwned",
        "ls\r\ntouch pwned",
        "echo pwned > file",
        "echo pwned >> file",
        "cat < /etc/passwd",
        "cat <(ls)",
        'echo "; touch pwned "',
        'echo \\"; touch pwned \\"',
        "echo 'a\0b'",
    ],
)
def test_shell_tricks_are_denied_with_a_word_on_why(workspace: Path, cmd: str):
    failure = refused(cmd, workspace)
    assert failure.code == "denied"
    assert "There is no shell here" in str(failure)


@pytest.mark.parametrize(
    "cmd",
    [
        "cat /etc/passwd",
        "cat //etc/passwd",
        "cat ../secret",
        "cat ./../secret",
        "cat sub/../../secret",
        "cat ..",
        "ls /",
        "ls -- /",
        "ls -la/etc",
        "ls --file=/etc/passwd",
        "ls --file=../secret",
        "ls --file=sub/../../secret",
        "ls -f../secret",
        "ls -C..",
        "ls -xf/etc/passwd",
        "cat if=/etc/passwd",
        "cat a:/etc",
        "cat a,/etc",
        "cat @/etc/passwd",
        "cat @../secret",
        "cat file:///etc/passwd",
        "cat http://example.com/x",
        "cat 'r /etc/passwd'",
        "cat 'r ../secret'",
        "cat 'open(\"/etc/passwd\")'",
        "cat '\\/etc/passwd'",
        "cat to-file",
        "cat to-folder/secret",
        "cat sub/../to-file",
        "cat --file=to-file",
        "cat -fto-file",
        "cat a:to-file",
        "cat 'dangling'",
        "echo '/'",
    ],
)
def test_arguments_that_lead_out_are_denied(workspace: Path, outside: Path, cmd: str):
    (workspace / "sub").mkdir()
    (workspace / "to-file").symlink_to("../secret")
    (workspace / "to-folder").symlink_to(outside)
    (workspace / "dangling").symlink_to("../nowhere")
    assert refused(cmd, workspace).code == "denied"


@pytest.mark.parametrize(
    "cmd",
    ["find . -exec touch pwned", "env touch pwned", "sh -c ls", "/bin/cat a", "./cat a", "A=1 cat a", "'' a", "cats"],
)
def test_only_allowed_programs_run_and_only_by_their_bare_names(workspace: Path, cmd: str):
    failure = refused(cmd, workspace)
    assert failure.code == "denied"
    assert "allowed are cat, echo, ls, pwd" in str(failure)


def test_a_program_of_the_workspace_does_not_stand_in_for_an_allowed_one(workspace: Path):
    (workspace / "cat").write_text("#!/bin/sh\n")
    (workspace / "cat").chmod(0o755)
    assert not parse("cat a", workspace).program.startswith(str(workspace))


@pytest.mark.parametrize(
    ("cmd", "code", "says"),
    [
        ("", "bad_arguments", "is empty"),
        ("   ", "bad_arguments", "is empty"),
        ("echo 'open", "bad_arguments", "No closing quotation"),
        ("surely-not-installed", "unavailable", "is allowed, but not installed"),
    ],
)
def test_says_what_else_is_wrong(workspace: Path, cmd: str, code: str, says: str):
    failure = refused(cmd, workspace, (*ALLOW, "surely-not-installed"))
    assert (failure.code, says in str(failure)) == (code, True)


def test_with_network_an_http_address_may_be_an_argument_and_no_other_may(workspace: Path):
    assert parse("cat https://example.com/a/../b", workspace, network=True).argv[1] == "https://example.com/a/../b"
    for address in ("file:///etc/passwd", "ftp://example.com/x", "http:///etc/passwd"):
        with pytest.raises(SpellFailed):
            parse(f"cat {address}", workspace, network=True)


@given(st.lists(st.sampled_from(["..", ".", "/", "a", "link", "-", "f", "=", ":", ",", "@", " ", "~", "'", "ü"])))
def test_no_accepted_argument_leads_out_however_it_is_put_together(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str]
):
    root = tmp_path_factory.getbasetemp() / "property"
    root.mkdir(exist_ok=True)
    if not (root / "link").is_symlink():
        (root / "link").symlink_to("../..")
    argument = "".join(parts)
    try:
        parse(f"cat -- {shlex.quote(argument)}", root)
    except SpellFailed:
        return
    readings = [argument, *(argument.split(sign, 1)[1] for sign in "=:,@ " if sign in argument)]
    if argument.startswith("-"):
        readings.append(argument[2:])
    for reading in readings:
        real = os.path.realpath(os.path.join(root, reading))
        assert real == str(root) or real.startswith(f"{root}/")
