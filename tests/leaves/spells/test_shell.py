"""A program runs confined, and ends with everything it started: when it is done, late, unwanted, or orphaned."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import msgspec
import pytest
import uvloop

from branches.spellcasting import Casting, SpellFailed
from branches.spellcasting.spells import Exec, ReadText
from leaves.spells import shell as shell_module
from leaves.spells.sandbox.landlock import landlock_abi
from leaves.spells.shell import Shell, ShellOptions

CASTING = Casting(id="call", session="s")
ALLOW = ("cat", "echo", "env", "head", "ls", "pwd", "sh", "yes")
SETSID = shutil.which("setsid", path="/usr/bin:/bin")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a reaper of orphans")
landlocked = pytest.mark.skipif(landlock_abi() == 0, reason="this kernel has no Landlock")


@pytest.fixture
def shell(workspace: Path) -> Shell:
    return Shell(ShellOptions(root=str(workspace), allow=ALLOW))


async def run(shell: Shell, cmd: str, timeout_s: int = 60) -> dict[str, Any]:
    return await shell.cast(Exec(cmd=cmd, timeout_s=timeout_s), CASTING)


async def refused(shell: Shell, cmd: str, timeout_s: int = 60) -> SpellFailed:
    with pytest.raises(SpellFailed) as failure:
        await run(shell, cmd, timeout_s)
    return failure.value


class TestRunning:
    async def test_gives_exit_code_and_output(self, shell: Shell, workspace: Path):
        (workspace / "list.txt").write_text("milk\n")
        assert await run(shell, "cat list.txt") == {
            "exit_code": 0,
            "stdout": "milk\n",
            "stderr": "",
            "truncated": False,
        }

    async def test_a_program_that_fails_is_a_result_and_no_fault(self, shell: Shell, workspace: Path):
        result = await run(shell, "cat nothing-here")
        assert result["exit_code"] == 1
        assert "nothing-here" in result["stderr"]
        (workspace / "die.sh").write_text("kill -SEGV $$\n")
        assert (await run(shell, "sh die.sh"))["exit_code"] == -signal.SIGSEGV

    async def test_the_program_works_in_the_workspace(self, shell: Shell, workspace: Path):
        assert (await run(shell, "pwd"))["stdout"] == f"{workspace}\n"

    async def test_its_environment_holds_nothing_of_ours(
        self, shell: Shell, workspace: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("CANARY_API_KEY", "secret-canary")
        lines = (await run(shell, "env"))["stdout"].splitlines()
        assert sorted(line.partition("=")[0] for line in lines) == ["HOME", "LANG", "PATH"]

    async def test_its_input_is_empty(self, shell: Shell):
        assert (await run(shell, "cat"))["stdout"] == ""

    async def test_no_file_of_ours_is_open_in_it(self, shell: Shell, workspace: Path):
        (workspace / "files.sh").write_text("for n in 3 4 5 6 7 8 9; do (: >&$n) 2>&- && echo $n; done; :\n")
        inherited = os.open(workspace, os.O_RDONLY)
        os.set_inheritable(inherited, True)
        assert (await run(shell, "sh files.sh"))["stdout"] == ""
        os.close(inherited)

    async def test_output_is_bounded_and_says_so(self, workspace: Path):
        shell = Shell(ShellOptions(root=str(workspace), allow=ALLOW, max_output_bytes=10))
        (workspace / "flood.sh").write_text("yes flood | head -c 3000000; yes flood | head -c 3000000 >&2\n")
        assert await run(shell, "sh flood.sh") == {
            "exit_code": 0,
            "stdout": "flood\nfloo",
            "stderr": "flood\nfloo",
            "truncated": True,
        }
        assert (await run(shell, "echo 123456789"))["truncated"] is False

    async def test_output_that_is_no_utf8_can_be_recorded(self, shell: Shell, workspace: Path):
        (workspace / "a").write_bytes(b"a\xff\n")
        result = await run(shell, "cat a")
        assert msgspec.json.decode(msgspec.json.encode(result))["stdout"] == "a\ufffd\n"

    async def test_what_the_command_line_denies_never_runs(self, shell: Shell, workspace: Path):
        for cmd in ("echo a > pwned", "sh -c 'echo a > pwned'", "cat ../secret", "touch pwned"):
            assert (await refused(shell, cmd)).code == "denied"
        assert os.listdir(workspace) == []

    async def test_a_program_that_cannot_be_started_is_a_fault(self, workspace: Path, tmp_path: Path):
        broken = tmp_path / "bin" / "broken"
        broken.parent.mkdir()
        broken.write_text("#!/no/such/interpreter\n")
        broken.chmod(0o755)
        shell = Shell(ShellOptions(root=str(workspace), allow=("broken",), path=str(broken.parent)))
        failure = await refused(shell, "broken")
        assert (failure.code, "broken could not be started: no such file" in str(failure)) == ("failed", True)

    async def test_a_file_over_the_limit_ends_its_writer(self, workspace: Path):
        shell = Shell(ShellOptions(root=str(workspace), allow=ALLOW, max_file_bytes=1000))
        (workspace / "grow.sh").write_text("exec head -c 5000 /dev/zero > big\n")
        assert (await run(shell, "sh grow.sh"))["exit_code"] != 0
        assert (workspace / "big").stat().st_size <= 1000

    async def test_many_run_at_once(self, shell: Shell):
        results = await asyncio.gather(*(run(shell, f"echo {number}") for number in range(8)))
        assert [result["stdout"] for result in results] == [f"{number}\n" for number in range(8)]

    def test_works_on_uvloop_too(self, shell: Shell):
        assert uvloop.run(run(shell, "echo fast"))["stdout"] == "fast\n"

    async def test_a_workspace_that_cannot_be_opened_makes_the_spell_unavailable(self, tmp_path: Path):
        (tmp_path / "file").touch()
        shell = Shell(ShellOptions(root=str(tmp_path / "file"), allow=ALLOW))
        assert (await refused(shell, "ls")).code == "unavailable"

    async def test_is_asked_for_nothing_but_its_own_spells(self, shell: Shell):
        with pytest.raises(TypeError, match=r"does not cast fs\.read_text"):
            await shell.cast(ReadText(path="a"), CASTING)


@landlocked
class TestConfinement:
    """With an interpreter allowed, which no reading of arguments can hold."""

    @pytest.mark.parametrize(
        "line",
        [
            "cat /etc/passwd",
            "cat ../secret",
            "cat ../outside/secret",
            "ln -s ../secret link && cat link",
            "ln ../secret hard && cat hard",
            "mv ../secret here && cat here",
            "ls /",
            "ls ..",
            "ls /proc",
            "cat /proc/$PPID/environ",
            "cat /proc/self/environ",
            "echo pwned > ../pwned",
            "echo pwned > /tmp/pwned-by-coven-test",
            "echo pwned >> ../secret",
            "rm ../secret",
            "mkdir ../pwned",
            "mv script.sh ../pwned",
            "cp /bin/ls here && ./here",
            "mkfifo pipe",
        ],
    )
    async def test_a_script_cannot_leave(self, shell: Shell, workspace: Path, tmp_path: Path, line: str):
        (workspace / "script.sh").write_text(line + "\n")
        before = sorted(os.listdir(tmp_path))
        result = await run(shell, "sh script.sh")
        assert result["exit_code"] != 0
        assert result["stdout"] == ""
        assert sorted(os.listdir(tmp_path)) == before
        assert (tmp_path / "secret").read_text() == "secret-canary-of-the-outside"

    async def test_a_script_can_work_inside(self, shell: Shell, workspace: Path):
        (workspace / "script.sh").write_text("mkdir -p a/b && echo 1 > a/b/c && mv a/b/c d && cat d && rm -r a d\n")
        result = await run(shell, "sh script.sh")
        assert (result["exit_code"], result["stdout"]) == (0, "1\n")

    @pytest.mark.skipif(landlock_abi() < 6, reason="this kernel's Landlock does not restrict signals")
    async def test_a_script_cannot_signal_anybody_else(self, shell: Shell, workspace: Path):
        (workspace / "script.sh").write_text(f"kill -9 $PPID; kill -0 {os.getpid()}\n")
        result = await run(shell, "sh script.sh")
        assert result["exit_code"] == 1
        assert "not permitted" in result["stderr"].lower()

    @pytest.mark.skipif(landlock_abi() < 4, reason="this kernel's Landlock does not restrict TCP")
    @pytest.mark.parametrize("network", [False, True])
    async def test_tcp_is_there_only_with_network(self, workspace: Path, network: bool):
        python = shutil.which("python3", path="/usr/bin:/bin")
        if python is None:
            pytest.skip("no system Python to connect with")
        with socket.create_server(("127.0.0.1", 0)) as server:
            (workspace / "connect.py").write_text(
                f"import socket\nsocket.create_connection({server.getsockname()!r}, 5)\nprint('connected')\n"
            )
            shell = Shell(ShellOptions(root=str(workspace), allow=("python3",), network=network, path="/usr/bin:/bin"))
            result = await run(shell, "python3 connect.py")
        assert (result["stdout"], "PermissionError" in result["stderr"]) == (
            ("connected\n", False) if network else ("", True)
        )

    async def test_root_keeps_no_power_but_over_files(self, shell: Shell, workspace: Path):
        if os.geteuid() != 0:
            pytest.skip("only root has powers to lose")
        (workspace / "script.sh").write_text("chroot . ; mount -t tmpfs none . ; nice -n -5 echo ; :\n")
        result = await run(shell, "sh script.sh")
        assert result["stderr"].count("ermission denied") + result["stderr"].count("not permitted") >= 2


class TestWithoutLandlock:
    async def test_says_once_that_arguments_are_the_only_wall(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ):
        """A report as a kernel without Landlock gives it."""
        unconfined = shell_module._read_report

        def without(*arguments: Any) -> Any:
            report, output, errors = unconfined(*arguments)
            return {**report, "landlock": 0}, output, errors

        monkeypatch.setattr(shell_module, "_read_report", without)
        await run(shell, "pwd")
        await run(shell, "pwd")
        (warning,) = caplog.records
        assert (warning.name, warning.levelname) == ("coven.shell", "WARNING")
        assert "no Landlock" in warning.getMessage()


class Alive:
    """A pipe that a script holds open for writing: its end is read when the last process that has it is gone."""

    def __init__(self, workspace: Path) -> None:
        self.path = workspace / "alive"
        os.mkfifo(self.path)
        self._file: TextIO | None = None

    async def line(self) -> str:
        if self._file is None:
            self._file = await asyncio.to_thread(open, self.path)
        return (await asyncio.to_thread(self._file.readline)).strip()

    async def everything_ended(self) -> None:
        """Returns when no process holds the pipe any more."""
        assert self._file is not None
        async with asyncio.timeout(60):
            await asyncio.to_thread(self._file.read)
        self._file.close()


@pytest.fixture
def alive(workspace: Path) -> Alive:
    return Alive(workspace)


STAYING = {
    "child": "sleep 1000 &",
    "stubborn": "(trap '' TERM HUP INT; sleep 1000) &",
    "orphan": "( (sleep 1000) & ) &",
    "daemon": f"{SETSID} sh -c '( (sleep 1000) & ) & sleep 1000' &",
    "forking": f"{SETSID} sh -c 'while :; do sleep 1000 & sleep 0.01; done' &",
}


@pytest.fixture(params=STAYING)
def leave_behind(request: pytest.FixtureRequest, workspace: Path) -> Callable[[str], None]:
    """Writes a script that starts something that would stay, and then goes on as told."""
    if request.param in ("daemon", "forking") and SETSID is None:
        pytest.skip("no setsid here")

    def write(then: str) -> None:
        (workspace / "script.sh").write_text(f"exec 3> alive\n{STAYING[request.param]}\necho started >&3\n{then}\n")

    return write


@linux
class TestEnding:
    async def test_what_stays_behind_a_program_that_ends_is_ended(
        self, shell: Shell, alive: Alive, leave_behind: Callable[[str], None]
    ):
        leave_behind("echo done")
        running = asyncio.create_task(run(shell, "sh script.sh"))
        assert await alive.line() == "started"
        assert (await running)["stdout"] == "done\n"
        await alive.everything_ended()

    async def test_a_timeout_ends_everything_and_tells_what_was_printed(
        self, shell: Shell, alive: Alive, leave_behind: Callable[[str], None]
    ):
        leave_behind("echo so far; echo and errors >&2; sleep 1000")
        running = asyncio.create_task(refused(shell, "sh script.sh", timeout_s=3))
        assert await alive.line() == "started"
        failure = await running
        assert failure.code == "timeout"
        assert "sh ran longer than 3 s and was ended" in str(failure)
        assert "so far" in str(failure)
        assert "and errors" in str(failure)
        await alive.everything_ended()

    async def test_a_timeout_ends_what_never_rests(self, shell: Shell, workspace: Path, alive: Alive):
        (workspace / "script.sh").write_text("exec 3> alive\necho started >&3\nwhile :; do :; done\n")
        running = asyncio.create_task(refused(shell, "sh script.sh", timeout_s=3))
        assert await alive.line() == "started"
        assert (await running).code == "timeout"
        await alive.everything_ended()

    async def test_a_cancelled_cast_ends_everything(
        self, shell: Shell, alive: Alive, leave_behind: Callable[[str], None]
    ):
        leave_behind("sleep 1000")
        running = asyncio.create_task(run(shell, "sh script.sh"))
        assert await alive.line() == "started"
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await alive.everything_ended()

    async def test_a_killed_service_leaves_nothing_running(
        self, workspace: Path, alive: Alive, leave_behind: Callable[[str], None]
    ):
        leave_behind("sleep 1000")
        program = (
            "import asyncio\n"
            "from branches.spellcasting import Casting\n"
            "from branches.spellcasting.spells import Exec\n"
            "from leaves.spells.shell import Shell, ShellOptions\n"
            f"shell = Shell(ShellOptions(root={str(workspace)!r}, allow=('sh',)))\n"
            "asyncio.run(shell.cast(Exec(cmd='sh script.sh', timeout_s=1000), Casting(id='c', session='s')))\n"
        )
        service = await asyncio.create_subprocess_exec(sys.executable, "-c", program, cwd=Path(__file__).parents[3])
        assert await alive.line() == "started"
        service.kill()
        await service.wait()
        await alive.everything_ended()

    async def test_a_killed_runner_takes_its_program_along_and_the_fault_says_so(
        self, shell: Shell, workspace: Path, alive: Alive
    ):
        (workspace / "script.sh").write_text("exec 3> alive\necho $PPID >&3\nexec sleep 1000\n")
        running = asyncio.create_task(refused(shell, "sh script.sh"))
        os.kill(int(await alive.line()), signal.SIGKILL)
        failure = await running
        assert (failure.code, "may have run in part" in str(failure)) == ("failed", True)
        await alive.everything_ended()


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({}, "missing required field `allow`"),
            ({"allow": ["/bin/ls"]}, "not a bare program name"),
            ({"allow": ["-c"]}, "not a bare program name"),
            ({"allow": ["ls -l"]}, "not a bare program name"),
            ({"allow": [""]}, "not a bare program name"),
            ({"allow": ["ls"], "deny": [""]}, "would deny every command"),
            ({"allow": ["ls"], "path": "bin:/usr/bin"}, "must name absolute folders"),
            ({"allow": ["ls"], "root": ""}, r"length >= 1 - at `\$.root`"),
            ({"allow": ["ls"], "shell": True}, "unknown field `shell`"),
        ],
    )
    def test_mistakes_are_refused(self, options: dict[str, Any], says: str):
        with pytest.raises(msgspec.ValidationError, match=says):
            msgspec.convert(options, ShellOptions)

    def test_the_denied_texts_are_the_operators_to_choose(self):
        options = msgspec.convert({"allow": ["ls"], "deny": ["--help"]}, ShellOptions)
        assert options.deny == ("--help",)
