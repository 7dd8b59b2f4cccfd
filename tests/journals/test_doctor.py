"""The doctor: what it says of a healthy coven, and of each thing that can be wrong."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from journals import Draft, EmbeddedServer, JetStreamStore, StoreFull
from journals._doctor import Finding, examine
from journals._doctor._durability import SyncConfig, judged, monitored
from journals._doctor._folder import check_folder, file_system_of
from journals._doctor._probe import NoAnswer, Probe
from journals._doctor._scratch import Latencies, check_clock
from journals._doctor._server import check_limits, check_version, server_id
from journals._doctor._surroundings import check_landlock, check_secrets, landlock_version
from journals._server._ports import choose_port
from tests.journals.kinds import Said, registry
from tests.journals.servers import accounts, external

NOTHING_MOUNTED = Path(os.devnull)


EXPORTED = '{service: "$SYS.REQ.SERVER.PING.VARZ"}'


def of(findings: Sequence[Finding], topic: str) -> Finding:
    """The worst finding of a topic."""
    return max((found for found in findings if found.topic == topic), key=lambda found: found.level != "ok")


def not_ok(findings: Sequence[Finding]) -> list[Finding]:
    return [found for found in findings if found.level != "ok"]


async def streams(server: EmbeddedServer) -> list[str]:
    async with await Probe.open(server.url, token=server.token, credentials=None) as probe:
        return (await probe.api("STREAM.NAMES"))["streams"] or []


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    async with EmbeddedServer(tmp_path / ".coven") as running:
        yield running


class TestAHealthyCoven:
    async def test_everything_is_looked_at(self, server: EmbeddedServer) -> None:
        findings = await examine(folder=server.folder, secrets=["SOME_API_KEY"], environment={})
        topics = "python libraries sandbox keys files disk server jetstream limits clock permissions durability streams"
        assert {found.topic for found in findings} == set(topics.split())

    async def test_nothing_is_wrong(self, server: EmbeddedServer) -> None:
        async with await JetStreamStore.connect(server.url, "hearth", token=server.token) as store:
            await store.open("chat", registry())
            await store.open("chat-stream", registry(), short_lived=True)
        findings = await examine(folder=server.folder, coven="hearth")
        machine = {"sandbox", "disk"}  # a matter of where the tests run
        assert [found for found in not_ok(findings) if found.topic not in machine] == []
        said = {found.message for found in findings if found.topic == "streams"}
        assert said == {"hearth-chat is set as it must be", "hearth-chat-stream is set as it must be"}

    async def test_nothing_is_left_behind(self, server: EmbeddedServer) -> None:
        await examine(folder=server.folder)
        await examine(server.url, token=server.token)
        assert await streams(server) == []

    async def test_no_secret_is_shown(self, server: EmbeddedServer) -> None:
        findings = await examine(folder=server.folder, secrets=["SOME_KEY"], environment={"SOME_KEY": "canary"})
        assert not [found for found in findings if server.token in repr(found) or "canary" in repr(found)]


class TestTheServer:
    async def test_none_runs_for_the_folder(self, tmp_path: Path) -> None:
        found = of(await examine(folder=tmp_path), "server")
        assert (found.level, found.message) == ("warning", f"no embedded server runs for {tmp_path}")
        assert "coven run" in found.cure

    async def test_none_is_at_the_address(self) -> None:
        url = f"nats://app:canary@127.0.0.1:{choose_port()}"
        findings = await examine(url)
        found = of(findings, "server")
        assert found.level == "problem"
        assert "no NATS server answers at nats://127.0.0.1" in found.message
        assert "canary" not in repr(findings)

    async def test_the_token_is_wrong(self, server: EmbeddedServer) -> None:
        found = of(await examine(server.url, token="canary"), "server")
        assert found.level == "problem"
        assert "refuses these credentials" in found.message
        assert "canary" not in repr(found)

    async def test_it_has_no_jetstream(self, tmp_path: Path) -> None:
        async with external(tmp_path, "") as port:
            found = of(await examine(f"127.0.0.1:{port}"), "jetstream")
        assert found.level == "problem"
        assert "`-js`" in found.cure

    async def test_the_account_has_no_jetstream(self, tmp_path: Path) -> None:
        config = accounts().replace("jetstream: enabled", "jetstream: disabled")
        async with external(tmp_path, config) as port:
            found = of(await examine(f"nats://app:canary@127.0.0.1:{port}"), "jetstream")
        assert found.level == "problem"
        assert "enable JetStream for this account" in found.cure

    async def test_it_is_full_which_says_nothing_about_its_fences(self, tmp_path: Path) -> None:
        async with external(tmp_path, 'jetstream { store_dir: "js", max_file_store: 20K }') as port:
            async with await JetStreamStore.connect(f"127.0.0.1:{port}", "hearth") as store:
                journal = await store.open("chat", registry())
                with pytest.raises(StoreFull):
                    while True:
                        await journal.append(Said(text="x"), session="s")
            findings = await examine(f"127.0.0.1:{port}")
        refused = [found for found in not_ok(findings) if "is refused" in found.message]
        what = [found.message.partition(" is refused")[0] for found in refused]
        assert what == ["an append", "a fenced append", "an atomic batch"]
        assert {"raise its `max_file_store`" in found.cure for found in refused} == {True}
        assert not any("a fence must refuse" in found.message for found in findings)

    def test_it_is_older_than_recommended(self) -> None:
        assert check_version("nats://host", "2.15.1").level == "ok"
        found = check_version("nats://host", "2.14.3")
        assert (found.level, found.message) == ("warning", "nats-server 2.14.3 at nats://host")

    def test_it_is_too_old(self) -> None:
        found = check_version("nats://host", "2.10.29")
        assert (found.level, found.cure) == ("problem", "upgrade it to 2.15")

    @pytest.mark.parametrize(
        ("account", "level"),
        [
            ({"storage": 10, "limits": {"max_storage": -1, "max_streams": -1}}, "ok"),
            ({"storage": 10, "limits": {"max_storage": 100}}, "ok"),
            ({"storage": 90, "limits": {"max_storage": 100}}, "warning"),
            ({"streams": 10, "limits": {"max_streams": 10}}, "warning"),
            ({}, "ok"),
        ],
    )
    def test_the_limits_of_the_account_are_near(self, account: dict[str, Any], level: str) -> None:
        assert {found.level for found in check_limits(account)} == {level}


def permissions_of_the_page(coven: str, columns: dict[str, str]) -> str:
    """The user permissions that docs/jetstream.md lists, as a server's configuration has them."""
    page = (Path(__file__).parents[2] / "docs" / "jetstream.md").read_text()
    said: list[str] = []
    for column, extra in columns.items():
        table = page.split(f"| {column} | for |\n")[1].split("\n\n")[0].splitlines()[1:]
        subjects = [subject for row in table for subject in row.split("|")[1].replace("`", "").split(",")]
        said.append(f"{column}: {json.dumps([*(subject.strip() for subject in subjects), *extra.split()])}")
    return ", ".join(said).replace("hearth", coven)


class TestPermissions:
    async def test_what_the_page_lists_is_all_that_a_coven_needs(self, tmp_path: Path) -> None:
        listed = permissions_of_the_page("cottage", {"publish": "", "subscribe": ""})
        async with (
            external(tmp_path, accounts(listed)) as port,
            await JetStreamStore.connect(f"nats://app:canary@127.0.0.1:{port}", "cottage") as store,
        ):
            journal = await store.open("chat", registry())
            await journal.append(Said(text="one"), session="s")
            await journal.append_all([Draft(entry=Said(text=text), session="s", id=text) for text in ("two", "three")])
            await journal.claim("s", "worker")
            await journal.append(Said(text="x" * 10_000_000), session="s")
            again = await store.open("chat", registry())
            assert len([record async for record in again.read()]) == 4
            assert len([record async for record in again.read(session="s", reverse=True)]) == 4
            assert (await again.wait_for(lambda record: len(record.entry.text) > 10)).session == "s"

    async def test_with_two_more_the_doctor_is_content(self, tmp_path: Path) -> None:
        more = "$JS.API.STREAM.DELETE.hearth-_doctor $JS.API.STREAM.DELETE.hearth-_doctor-memory $JS.API.STREAM.LIST"
        listed = permissions_of_the_page("hearth", {"publish": more, "subscribe": ""})
        async with external(tmp_path, accounts(listed)) as port:
            findings = await examine(f"nats://app:canary@127.0.0.1:{port}", coven="hearth")
        machine = {"sandbox", "durability"}
        assert [found for found in not_ok(findings) if found.topic not in machine] == []

    @pytest.mark.parametrize(
        ("denied", "says"),
        [
            ("$JS.API.STREAM.CREATE.>", "a stream cannot be created"),
            ("$JS.API.CONSUMER.CREATE.>", "a consumer is not possible"),
            ("$JS.API.DIRECT.GET.>", "a direct read is not possible"),
            ("coven.>", "an append is not possible"),
        ],
    )
    async def test_what_is_denied_is_named(self, tmp_path: Path, denied: str, says: str) -> None:
        async with external(tmp_path, accounts(f'publish: {{deny: "{denied}"}}')) as port:
            found = of(await examine(f"nats://app:canary@127.0.0.1:{port}"), "permissions")
        assert found.level == "problem"
        assert says in found.message
        assert "permissions violation for publish" in found.message
        assert "docs/jetstream.md" in found.cure

    async def test_a_scratch_stream_that_may_not_be_removed_is_named(self, tmp_path: Path) -> None:
        async with external(tmp_path, accounts('publish: {deny: "$JS.API.STREAM.DELETE.>"}')) as port:
            for _ in range(2):  # the second time with what the first one left
                findings = await examine(f"nats://app:canary@127.0.0.1:{port}", coven="hearth")
                (found,) = [found for found in not_ok(findings) if found.topic == "permissions"]
                assert found.level == "warning"
                assert "the scratch stream hearth-_doctor could not be removed" in found.message
                assert "`$JS.API.STREAM.DELETE.hearth-_doctor`" in found.cure
                assert of(findings, "streams").level == "ok"

    async def test_a_user_who_may_not_even_ask_for_a_deletion_is_fine(self, tmp_path: Path) -> None:
        async with external(tmp_path, accounts('publish: {deny: "$JS.API.STREAM.MSG.DELETE.>"}')) as port:
            findings = await examine(f"nats://app:canary@127.0.0.1:{port}")
        assert of(findings, "permissions").level == "ok"

    async def test_silence_is_no_answer(self, server: EmbeddedServer) -> None:
        async with await Probe.open(server.url, token=server.token, credentials=None) as probe:
            with pytest.raises(NoAnswer, match=r"nobody answers some\.subject"):
                await probe.ask("some.subject")


class TestDurability:
    async def test_of_the_embedded_server_is_its_profile(self, tmp_path: Path) -> None:
        async with EmbeddedServer(tmp_path, durability="process") as server:
            found = of(await examine(folder=server.folder), "durability")
        assert "not a power cut (profile `process`)" in found.message

    @pytest.mark.parametrize(
        ("sync", "level", "says"),
        [
            ("always", "ok", "the server says `sync_interval: always`"),
            ("30s", "warning", "syncs every 30 s"),
        ],
    )
    async def test_a_server_that_tells_is_believed(self, tmp_path: Path, sync: str, level: str, says: str) -> None:
        async with external(tmp_path, accounts(export=EXPORTED, sync=sync)) as port:
            found = of(await examine(f"nats://app:canary@127.0.0.1:{port}"), "durability")
        assert found.level == level
        assert says in found.message

    async def test_its_monitoring_port_is_believed_if_it_is_the_same_server(self, tmp_path: Path) -> None:
        async with external(tmp_path, 'http: "MONITOR"\n' + accounts(sync="always")) as port:
            monitor = int((tmp_path / "external.conf").read_text().split('http: "127.0.0.1:')[1].split('"')[0])
            url = f"nats://app:canary@127.0.0.1:{port}"
            async with await Probe.open(url, token=None, credentials=None) as probe:
                identity = await server_id(probe)
            assert await monitored(url, identity, monitor) == SyncConfig(120_000_000_000, sync_always=True)
            assert await monitored(url, "NANOTHER", monitor) is None
            assert await monitored(url, None, monitor) is None
        assert await monitored(url, identity, monitor) is None

    async def test_what_is_only_measured_is_never_more_than_a_guess(self, server: EmbeddedServer) -> None:
        found = of(await examine(server.url, token=server.token), "durability")
        assert found.level == "warning"
        assert "the server does not tell this account" in found.message
        assert "sync_interval: always" in found.cure

    @pytest.mark.parametrize(
        ("latencies", "says"),
        [
            (
                Latencies(disk=0.0021, memory=0.0003),
                r"2\.10 ms to disk and 0\.30 ms to memory: probably .*survives a power",
            ),
            (Latencies(disk=0.0003, memory=0.0003), "so it hardly waits for the disk: probably .*not a power cut"),
            (Latencies(disk=0.0510, memory=0.0500), "so it hardly waits for the disk"),
            (None, "it could not be measured"),
        ],
    )
    def test_a_guess_says_what_it_rests_on(self, latencies: Latencies | None, says: str) -> None:
        found = judged(latencies)
        assert found.level == "warning"
        with pytest.raises(AssertionError, match=says):
            raise AssertionError(found.message)


class TestStreams:
    async def make(self, server: EmbeddedServer, **config: object) -> None:
        async with await Probe.open(server.url, token=server.token, credentials=None) as probe:
            answer = await probe.api(f"STREAM.CREATE.{config['name']}", config)
            assert "error" not in answer, answer

    async def test_one_that_is_not_set_as_it_must_be_is_named_with_what_is_wrong(self, server: EmbeddedServer) -> None:
        await self.make(server, name="hearth-chat", subjects=["hearth.chat.>"], discard="new")
        found = of(await examine(folder=server.folder, coven="hearth"), "streams")
        assert found.level == "problem"
        assert "deny_delete is False and must be True" in found.message
        assert found.cure == "`nats stream edit hearth-chat`"

    async def test_one_that_takes_our_subjects_and_is_not_ours(self, server: EmbeddedServer) -> None:
        await self.make(server, name="AUDIT", subjects=["hearth.chat.>"])
        found = of(await examine(folder=server.folder, coven="hearth"), "streams")
        assert found.level == "problem"
        assert "stream 'AUDIT' takes subjects of 'hearth'" in found.message

    async def test_those_of_other_covens_are_not_looked_at(self, server: EmbeddedServer) -> None:
        await self.make(server, name="AUDIT", subjects=["other.>"])
        assert of(await examine(folder=server.folder, coven="hearth"), "streams").level == "ok"

    async def test_all_are_looked_at_however_many(self, server: EmbeddedServer) -> None:
        for number in range(260):
            await self.make(server, name=f"S{number:03}", subjects=[f"hearth.s{number}"], storage="memory")
        findings = await examine(folder=server.folder, coven="hearth")
        assert len([found for found in findings if found.topic == "streams"]) == 260


class TestTheFolder:
    def test_one_that_is_not_there_is_fine(self, tmp_path: Path) -> None:
        assert not_ok(check_folder(tmp_path / "new")) == []

    def test_a_file_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        assert [found.level for found in check_folder(tmp_path / "file")] == ["problem"]

    def test_others_can_look_into_it(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o755)
        (found,) = (found for found in check_folder(tmp_path, NOTHING_MOUNTED) if found.topic == "files")
        assert (found.level, found.cure) == ("warning", f"`chmod 700 {tmp_path}`")

    @pytest.mark.parametrize("name", ["server.json", "server.conf"])
    def test_others_can_read_the_token(self, tmp_path: Path, name: str) -> None:
        tmp_path.chmod(0o700)
        (tmp_path / name).touch(mode=0o644)
        (found,) = (found for found in check_folder(tmp_path, NOTHING_MOUNTED) if found.topic == "files")
        assert found.level == "problem"
        assert f"{name} holds the server's token" in found.message
        assert "makes a new token" in found.cure

    @pytest.mark.parametrize(
        ("kind", "level", "says"),
        [("tmpfs", "problem", "in memory"), ("nfs4", "warning", "network file system"), ("ext4", "ok", "GB free")],
    )
    def test_what_it_is_on(self, tmp_path: Path, kind: str, level: str, says: str) -> None:
        mounts = tmp_path / "mounts"
        folder = tmp_path / "with space"
        folder.mkdir()
        point = str(folder).replace(" ", "\\040")
        mounts.write_text(f"/dev/root / ext4 rw 0 0\nwhat {point} {kind} rw 0 0\nproc /proc proc rw 0 0\n")
        assert file_system_of(folder, mounts) == kind
        found = next(found for found in check_folder(folder, mounts) if found.topic == "disk")
        assert says in found.message
        assert found.level == level or kind == "ext4"  # how much room there is, is the machine's matter

    def test_a_system_that_does_not_tell(self, tmp_path: Path) -> None:
        assert file_system_of(tmp_path, tmp_path / "none") == ""


class TestSurroundings:
    @pytest.mark.parametrize(
        ("server", "level", "says"),
        [
            (100.0, "ok", "agree"),
            (98.5, "ok", "agree"),
            (90.0, "warning", "10.0 s behind this one"),
            (120.0, "warning", "15.0 s ahead of this one"),
        ],
    )
    def test_clocks(self, server: float, level: str, says: str) -> None:
        found = check_clock(server, before=100.0, after=105.0)
        assert found.level == level
        assert says in found.message

    def test_keys_are_named_and_their_values_never_read(self) -> None:
        class Names(dict[str, str]):
            def __getitem__(self, name: str) -> str:
                raise AssertionError(f"the value of {name} was read")

        (found,) = check_secrets(["A_KEY", "B_KEY"], Names(A_KEY="canary"))
        assert found.message == "set: A_KEY; not set: B_KEY"
        assert check_secrets([], {}) == []

    @pytest.mark.skipif(sys.platform != "linux", reason="Landlock is Linux's")
    def test_landlock_is_what_the_kernel_says(self) -> None:
        (found,) = check_landlock()
        assert (found.level == "ok") == (landlock_version() > 0)
        assert found.topic == "sandbox"

    def test_a_finding_can_be_written_as_json(self) -> None:
        found = Finding("ok", "server", "said")
        assert json.loads(msgspec.json.encode(found))["level"] == "ok"


async def test_something_else_at_the_monitoring_port_is_not_believed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        assert await monitored("nats://127.0.0.1", "N", sock.getsockname()[1]) is None
