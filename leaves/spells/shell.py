"""The `shell` substrate: one program at a time in the workspace, without a shell, and in a sandbox."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from branches.spellcasting import Casting, Spell, SpellFailed
from branches.spellcasting.spells import Exec
from leaves.spells.command import Command, parse_command
from leaves.spells.sandbox import landlock
from leaves.spells.sandbox.runner import Order, Report
from leaves.spells.workspace import open_workspace

DENIED = (";", "&", "|", "`", "$(", "${", ">", "<", "\n", "\r")
_BARE_NAME = re.compile(r"[\w.+][\w.+\-]*")
_GRACE_S = 5.0
_PACKAGES = str(Path(__file__).resolve().parents[2])
_RUNNER = f"import sys; sys.path.append({_PACKAGES!r}); from leaves.spells.sandbox.runner import main; main()"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
_SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/localtime", "/dev/random", "/dev/urandom", "/dev/zero")
_log = logging.getLogger("coven.shell")


class ShellOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `coven.yaml` says about the shell. Sizes are in bytes."""

    allow: Annotated[tuple[str, ...], Meta(description="bare names of the programs that may run, e.g. [ls, cat]")]
    deny: Annotated[tuple[str, ...], Meta(description="texts that may stand nowhere in a command")] = DENIED
    root: Annotated[str, Meta(min_length=1, description="the folder that programs work in; made if missing")] = (
        "./workspace"
    )
    path: Annotated[str, Meta(description="where programs are looked for: absolute folders, separated by `:`")] = (
        "/usr/local/bin:/usr/bin:/bin"
    )
    network: Annotated[bool, Meta(description="let programs use TCP, and take http addresses as arguments")] = False
    max_output_bytes: Annotated[int, Meta(ge=0, description="kept of standard output, and of standard error")] = 50_000
    max_file_bytes: Annotated[int, Meta(ge=0, description="the largest file that a program may write")] = 256 * 1024**2
    max_memory_bytes: Annotated[int, Meta(ge=0, description="the data that one process may hold")] = 2 * 1024**3

    def __post_init__(self) -> None:
        for name in self.allow:
            if not _BARE_NAME.fullmatch(name):
                raise ValueError(f"{name!r} in `allow` is not a bare program name such as `ls`")
        if "" in self.deny:
            raise ValueError("an empty text in `deny` would deny every command")
        if not all(folder.startswith("/") for folder in self.path.split(":")):
            raise ValueError(f"`path` {self.path!r} must name absolute folders, separated by `:`")


class Shell:
    """Casts `shell.exec`. Each program has a runner, which ends it with its descendants when the cast is cancelled."""

    def __init__(self, options: ShellOptions) -> None:
        self._options = options
        self._root = os.path.realpath(options.root)
        self._warned = False

    def __repr__(self) -> str:
        return f"<Shell {self._root} allows {', '.join(self._options.allow) or 'nothing'}>"

    async def cast(self, spell: Spell, casting: Casting) -> Any:
        """See `Substrate.cast`. Gives exit code and output; a program that fails is a result, not a fault."""
        if not isinstance(spell, Exec):
            raise TypeError(f"the shell does not cast {spell.name()}")
        command = await asyncio.to_thread(self._prepare, spell.cmd)
        report, output, errors = await self._run(self._order(command, spell.timeout_s))
        if not report["landlock"]:
            self._warn()
        name = command.argv[0]
        if report["ending"] == "not_started":
            raise SpellFailed("failed", f"{name} could not be started: {report['reason']}")
        truncated = tuple(report["kept"]) != tuple(report["printed"])
        if report["ending"] == "timeout":
            cut = " (cut)" if truncated else ""
            raise SpellFailed(
                "timeout",
                f"{name} ran longer than {spell.timeout_s} s and was ended, with all that it had started. It had "
                f"printed{cut}: {output or 'nothing'}" + (f"; and as errors: {errors}" if errors else ""),
            )
        return {"exit_code": report["exit_code"], "stdout": output, "stderr": errors, "truncated": truncated}

    async def close(self) -> None:
        """Nothing to end: every cast ends what it started, also when it is cancelled."""

    def _prepare(self, cmd: str) -> Command:
        os.close(open_workspace(self._root))
        options = self._options
        return parse_command(
            cmd,
            allow=options.allow,
            deny=options.deny,
            path=options.path,
            root=self._root,
            network=options.network,
        )

    def _order(self, command: Command, timeout_s: float) -> Order:
        options = self._options
        folders = (*_SYSTEM, *options.path.split(":"))
        return {
            "program": command.program,
            "argv": list(command.argv),
            "environment": {"PATH": options.path, "HOME": self._root, "LANG": "C.UTF-8"},
            "root": self._root,
            "granted": [
                *((folder, landlock.RUN) for folder in folders),
                *((file, landlock.READ_FILE) for file in _SYSTEM_FILES),
                (os.devnull, landlock.READ_FILE | landlock.WRITE_FILE),
            ],
            "network": options.network,
            "limits": {
                "RLIMIT_CORE": 0,
                "RLIMIT_CPU": int(timeout_s) + 5,  # should the runner be killed, no orphan spins for ever
                "RLIMIT_DATA": options.max_memory_bytes,
                "RLIMIT_FSIZE": options.max_file_bytes,
                "RLIMIT_NOFILE": 1024,
            },
            "timeout_s": timeout_s,
            "max_output_bytes": options.max_output_bytes,
        }

    async def _run(self, order: Order) -> tuple[Report, str, str]:
        """Have a runner carry the order out; gives its report and what the program printed."""
        libraries = os.environ.get("LD_LIBRARY_PATH")  # without it some builds of Python do not start
        try:
            runner = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-c", _RUNNER),
                stdin=PIPE,
                stdout=PIPE,
                env={} if libraries is None else {"LD_LIBRARY_PATH": libraries},
                start_new_session=True,
            )
        except OSError as error:
            raise SpellFailed("failed", f"the sandbox cannot be started: {error.strerror}") from None
        assert runner.stdin is not None
        assert runner.stdout is not None
        try:
            async with asyncio.timeout(order["timeout_s"] + _GRACE_S):
                runner.stdin.write(msgspec.json.encode(order) + b"\n")
                answer = await runner.stdout.read()
        except TimeoutError:
            raise SpellFailed("timeout", f"{order['argv'][0]} could not be ended in time; it may still run") from None
        finally:
            await _end(runner)
        return _read_report(answer, runner)

    def _warn(self) -> None:
        if self._warned:
            return
        self._warned = True
        _log.warning(
            "this system has no Landlock: programs are held in the workspace by their arguments alone; "
            "allow none that runs code of its own (interpreters, make, find); allowed are: %s",
            ", ".join(self._options.allow),
        )


def _read_report(answer: bytes, runner: Process) -> tuple[Report, str, str]:
    head, _, printed = answer.partition(b"\n")
    if not head:
        if runner.returncode is not None and runner.returncode < 0:
            raise SpellFailed("failed", "the sandbox was killed; the program may have run in part, look what it did")
        raise RuntimeError(f"the sandbox's runner ended with {runner.returncode} and without a report")
    report = msgspec.json.decode(head, type=Report)
    cut = report["kept"][0]
    return report, printed[:cut].decode("utf-8", "replace"), printed[cut:].decode("utf-8", "replace")


async def _end(runner: Process) -> None:
    """Tell the runner that it is not wanted any more, and wait until it has ended everything and itself."""
    assert runner.stdin is not None
    runner.stdin.close()
    try:
        async with asyncio.timeout(_GRACE_S):
            await runner.wait()
    except TimeoutError:
        runner.kill()
        await runner.wait()
