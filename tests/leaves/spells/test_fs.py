"""Files of the workspace can be read, listed and written, and nothing else can be reached, by whatever path."""

from __future__ import annotations

import asyncio
import os
import threading
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from branches.attachment import FILE_BYTES, Attachment
from branches.spellcasting import Casting, SpellFailed
from branches.spellcasting.spells import Attach, Exec, ListDir, ReadText, WriteText
from leaves.spells import fs
from leaves.spells.fs import Filesystem, FsOptions
from leaves.spells.sandbox import beneath

CASTING = Casting(id="call", session="s")


@pytest.fixture(params=["openat2", "stepwise"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of opening beneath a folder: the kernel's own, and ours for systems that have none."""
    if request.param == "openat2":
        if not beneath.has_openat2():
            pytest.skip("this kernel has no openat2")
    else:
        monkeypatch.setattr(beneath, "has_openat2", lambda: False)
    return request.param


@pytest.fixture
def files(way: str, workspace: Path) -> Filesystem:
    return Filesystem(FsOptions(root=str(workspace)))


async def read(files: Filesystem, path: str, **options: Any) -> dict[str, Any]:
    return await files.cast(ReadText(path=path, **options), CASTING)


async def write(files: Filesystem, path: str, text: str, **options: Any) -> dict[str, Any]:
    return await files.cast(WriteText(path=path, text=text, **options), CASTING)


async def refused(files: Filesystem, spell: Any) -> SpellFailed:
    with pytest.raises(SpellFailed) as failure:
        await files.cast(spell, CASTING)
    return failure.value


class TestReading:
    async def test_gives_the_text_and_the_size(self, files: Filesystem, workspace: Path):
        (workspace / "notes.md").write_text("grün\n")
        assert await read(files, "notes.md") == {
            "path": "notes.md",
            "text": "grün\n",
            "size": 6,
            "truncated": False,
            "valid_utf8": True,
        }

    async def test_says_when_the_text_was_cut_and_cuts_no_character_in_two(self, files: Filesystem, workspace: Path):
        (workspace / "a").write_text("grün")
        result = await read(files, "a", max_bytes=3)
        assert (result["text"], result["size"], result["truncated"], result["valid_utf8"]) == ("gr", 5, True, True)

    async def test_never_reads_more_than_the_operator_allows(self, way: str, workspace: Path):
        (workspace / "a").write_text("x" * 100)
        result = await read(Filesystem(FsOptions(root=str(workspace), max_file_bytes=10)), "a")
        assert (len(result["text"]), result["truncated"], result["size"]) == (10, True, 100)

    async def test_a_file_of_exactly_max_bytes_is_whole(self, files: Filesystem, workspace: Path):
        (workspace / "a").write_text("12345")
        assert (await read(files, "a", max_bytes=5))["truncated"] is False

    async def test_says_that_bytes_were_no_utf8(self, files: Filesystem, workspace: Path):
        (workspace / "a").write_bytes(b"a\xff\x00b")
        result = await read(files, "a")
        assert (result["text"], result["valid_utf8"]) == ("a\ufffd\x00b", False)

    async def test_follows_links_that_stay_inside(self, files: Filesystem, workspace: Path):
        (workspace / "deep" / "er").mkdir(parents=True)
        (workspace / "a").write_text("inside")
        (workspace / "deep" / "er" / "link").symlink_to("../../a")
        (workspace / "way").symlink_to("deep/er")
        assert (await read(files, "way/link"))["text"] == "inside"
        assert (await read(files, "deep/er/../../way/link"))["text"] == "inside"

    @pytest.mark.parametrize(
        ("path", "says"),
        [("none", "no such file"), ("a/b", "is a file, not a folder"), ("folder", "list it with fs.list_dir")],
    )
    async def test_says_what_is_wrong(self, files: Filesystem, workspace: Path, path: str, says: str):
        (workspace / "a").write_text("")
        (workspace / "folder").mkdir()
        failure = await refused(files, ReadText(path=path))
        assert (failure.code, says in str(failure)) == ("failed", True)
        assert str(workspace) not in str(failure)

    async def test_a_pipe_and_a_device_are_refused_without_waiting(self, files: Filesystem, workspace: Path):
        os.mkfifo(workspace / "pipe")
        failure = await refused(files, ReadText(path="pipe"))
        assert (failure.code, "not a regular file" in str(failure)) == ("denied", True)

    async def test_a_name_too_long_is_a_fault(self, files: Filesystem):
        assert (await refused(files, ReadText(path="x" * 300))).code == "failed"
        assert (await refused(files, ReadText(path="a/" * 5000))).code == "failed"


ESCAPES = [
    "../secret",
    "../../../../../../etc/passwd",
    "/etc/passwd",
    "//etc/passwd",
    "folder/../../secret",
    "folder/../../outside/secret",
    "to-file",
    "to-folder/secret",
    "to-folder",
    "absolute",
    "up/secret",
    "chain",
    "back-in",
    "a\0b",
    "..",
]


@pytest.fixture
def traps(workspace: Path, outside: Path) -> None:
    (workspace / "folder").mkdir()
    (workspace / "a").write_text("inside")
    (workspace / "to-file").symlink_to("../outside/secret")
    (workspace / "to-folder").symlink_to("../outside")
    (workspace / "absolute").symlink_to(outside / "secret")
    (workspace / "up").symlink_to("..")
    (workspace / "chain").symlink_to("folder/next")
    (workspace / "folder" / "next").symlink_to("../../outside/secret")
    (workspace / "back-in").symlink_to("../workspace/a")
    (workspace / "dangling").symlink_to("../nowhere")
    (workspace / "dangling-inside").symlink_to("nowhere")
    (workspace / "circle").symlink_to("circle")


@pytest.mark.usefixtures("traps")
class TestEscapes:
    @pytest.mark.parametrize("path", [*ESCAPES, "dangling", "circle"])
    async def test_cannot_be_read(self, files: Filesystem, path: str):
        assert (await refused(files, ReadText(path=path))).code == "denied"
        assert (await refused(files, Attach(path=path))).code == "denied"

    @pytest.mark.parametrize("path", [*ESCAPES, "dangling", "circle"])
    async def test_cannot_be_listed(self, files: Filesystem, path: str):
        assert (await refused(files, ListDir(path=path))).code == "denied"

    @pytest.mark.parametrize("overwrite", [True, False])
    @pytest.mark.parametrize(
        "path",
        [
            "../new",
            "/tmp/new",
            "folder/../../new",
            "to-folder/new",
            "up/new",
            "to-file",
            "absolute",
            "dangling",
            "dangling-inside",
            "dangling/new",
            "circle",
            "a\0b",
            "x/../../new",
        ],
    )
    async def test_cannot_be_written(
        self, files: Filesystem, tmp_path: Path, outside: Path, path: str, overwrite: bool
    ):
        before = _everything(tmp_path, "workspace")
        failure = await refused(files, WriteText(path=path, text="pwned", overwrite=overwrite))
        assert failure.code in ("denied", "bad_arguments")
        assert _everything(tmp_path, "workspace") == before

    async def test_a_link_that_leads_nowhere_inside_is_no_file(self, files: Filesystem):
        assert (await refused(files, ReadText(path="dangling-inside"))).code == "failed"
        assert (await refused(files, WriteText(path="dangling-inside/x", text=""))).code == "failed"

    async def test_a_listing_shows_links_as_links(self, files: Filesystem):
        result = await files.cast(ListDir(), CASTING)
        types = {entry["name"]: entry["type"] for entry in result["entries"]}
        assert types["to-file"] == types["to-folder"] == types["dangling"] == "link"
        assert (types["a"], types["folder"]) == ("file", "folder")


class TestAttaching:
    @pytest.mark.parametrize(
        ("name", "body", "type"),
        [
            ("report.pdf", b"%PDF-", "application/pdf"),
            ("chart.dat", b"\x89PNG\r\n\x1a\n\0", "image/png"),
            ("notes", b"milk", "application/octet-stream"),
        ],
    )
    async def test_gives_the_file_by_its_plain_name(
        self, files: Filesystem, workspace: Path, name: str, body: bytes, type: str
    ):
        (workspace / "out").mkdir()
        (workspace / "out" / name).write_bytes(body)
        given = await files.cast(Attach(path=f"out/{name}"), CASTING)
        assert given.attachments == (Attachment(name, type, body),)
        told = {"path": f"out/{name}", "size": len(body), "media_type": type, "attached_as": name}
        assert given.result == told

    async def test_what_nobody_could_be_sent_is_refused(self, files: Filesystem, workspace: Path):
        (workspace / "empty").touch()
        (workspace / "folder").mkdir()
        with (workspace / "large").open("wb") as large:
            large.truncate(FILE_BYTES + 1)
        os.mkfifo(workspace / "pipe")
        assert "is empty" in str(await refused(files, Attach(path="empty")))
        assert "over the limit of 8,388,608" in str(await refused(files, Attach(path="large")))
        assert "is a folder" in str(await refused(files, Attach(path="folder")))
        assert (await refused(files, Attach(path="pipe"))).code == "denied"


class TestListing:
    async def test_is_sorted_with_types_and_sizes(self, files: Filesystem, workspace: Path):
        (workspace / "b").write_text("12")
        (workspace / "a").mkdir()
        os.mkfifo(workspace / "c")
        assert await files.cast(ListDir(), CASTING) == {
            "path": ".",
            "entries": [
                {"name": "a", "type": "folder"},
                {"name": "b", "type": "file", "size": 2},
                {"name": "c", "type": "other"},
            ],
            "total": 3,
            "truncated": False,
        }

    async def test_says_when_there_is_more(self, files: Filesystem, workspace: Path):
        for number in range(5):
            (workspace / f"{number}").touch()
        result = await files.cast(ListDir(max_entries=2), CASTING)
        assert ([entry["name"] for entry in result["entries"]], result["total"], result["truncated"]) == (
            ["0", "1"],
            5,
            True,
        )

    async def test_a_name_that_is_no_utf8_can_be_recorded(self, files: Filesystem, workspace: Path):
        try:
            (workspace / os.fsdecode(b"a\xff")).touch()
        except OSError:
            pytest.skip("this file system has only UTF-8 names")
        result = await files.cast(ListDir(), CASTING)
        assert msgspec.json.decode(msgspec.json.encode(result))["entries"][0]["name"] == "a\ufffd"

    async def test_of_a_file_is_a_fault(self, files: Filesystem, workspace: Path):
        (workspace / "a").touch()
        assert (await refused(files, ListDir(path="a"))).code == "failed"


class TestWriting:
    async def test_makes_the_file_and_the_folders_above_it(self, files: Filesystem, workspace: Path):
        assert await write(files, "deep/./er//list.txt", "milk\n") == {
            "path": "deep/./er//list.txt",
            "size": 5,
            "overwritten": False,
        }
        assert (workspace / "deep" / "er" / "list.txt").read_text() == "milk\n"
        assert _everything(workspace) == ["deep", "deep/er", "deep/er/list.txt"]

    async def test_leaves_an_existing_file_alone_unless_told_otherwise(self, files: Filesystem, workspace: Path):
        (workspace / "a").write_text("old")
        failure = await refused(files, WriteText(path="a", text="new"))
        assert (failure.code, "set overwrite to true" in str(failure)) == ("failed", True)
        assert (workspace / "a").read_text() == "old"
        assert (await write(files, "a", "new", overwrite=True))["overwritten"] is True
        assert (workspace / "a").read_text() == "new"
        assert _everything(workspace) == ["a"]

    async def test_keeps_the_mode_of_what_it_replaces(self, files: Filesystem, workspace: Path):
        (workspace / "run.sh").write_text("old")
        (workspace / "run.sh").chmod(0o750)
        await write(files, "run.sh", "new", overwrite=True)
        assert (workspace / "run.sh").stat().st_mode & 0o777 == 0o750

    async def test_goes_through_links_to_folders_that_stay_inside(self, files: Filesystem, workspace: Path):
        (workspace / "real").mkdir()
        (workspace / "link").symlink_to("real")
        await write(files, "link/a", "x")
        assert (workspace / "real" / "a").read_text() == "x"

    async def test_replaces_no_folder_and_no_pipe(self, files: Filesystem, workspace: Path):
        (workspace / "folder").mkdir()
        os.mkfifo(workspace / "pipe")
        for path in ("folder", "pipe"):
            await refused(files, WriteText(path=path, text="x", overwrite=True))
        assert (workspace / "folder").is_dir()
        assert (workspace / "pipe").is_fifo()

    @pytest.mark.parametrize("path", ["", ".", "..", "folder/", "folder/.", "a/.."])
    async def test_wants_the_name_of_a_file(self, files: Filesystem, path: str):
        assert (await refused(files, WriteText(path=path, text="x"))).code == "bad_arguments"

    async def test_a_text_over_the_limit_is_refused(self, way: str, workspace: Path):
        files = Filesystem(FsOptions(root=str(workspace), max_file_bytes=10))
        failure = await refused(files, WriteText(path="a", text="x" * 11))
        assert (failure.code, "over the limit of 10" in str(failure)) == ("bad_arguments", True)
        assert _everything(workspace) == []

    async def test_of_two_writers_at_once_one_wins_and_the_other_hears_of_it(self, files: Filesystem, workspace: Path):
        casts = [
            files.cast(WriteText(path="a", text=str(number)), Casting(id=f"c{number}", session="s"))
            for number in range(8)
        ]
        results = await asyncio.gather(*casts, return_exceptions=True)
        assert len([result for result in results if isinstance(result, dict)]) == 1
        assert all("exists already" in str(result) for result in results if not isinstance(result, dict))
        assert _everything(workspace) == ["a"]

    async def test_works_on_a_file_system_without_hard_links(
        self, files: Filesystem, workspace: Path, monkeypatch: pytest.MonkeyPatch
    ):
        def no_links(*_: Any, **__: Any) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(fs.os, "link", no_links)
        await write(files, "a", "x")
        assert (workspace / "a").read_text() == "x"
        assert "exists already" in str(await refused(files, WriteText(path="a", text="y")))
        assert _everything(workspace) == ["a"]

    async def test_many_folders_deep(self, files: Filesystem, workspace: Path):
        await write(files, "d/" * 60 + "a", "x")
        assert (await read(files, "d/" * 60 + "a"))["text"] == "x"


class TestTheWorkspace:
    async def test_is_made_when_it_is_missing(self, way: str, tmp_path: Path):
        files = Filesystem(FsOptions(root=str(tmp_path / "new" / "workspace")))
        assert (await files.cast(ListDir(), CASTING))["total"] == 0

    async def test_that_cannot_be_opened_makes_the_spell_unavailable(self, way: str, tmp_path: Path):
        (tmp_path / "file").touch()
        failure = await refused(Filesystem(FsOptions(root=str(tmp_path / "file"))), ListDir())
        assert (failure.code, "mend `root`" in str(failure)) == ("unavailable", True)

    async def test_may_itself_be_reached_by_a_link(self, way: str, tmp_path: Path, workspace: Path):
        (tmp_path / "link").symlink_to(workspace)
        (workspace / "a").write_text("x")
        assert (await read(Filesystem(FsOptions(root=str(tmp_path / "link"))), "a"))["text"] == "x"

    async def test_is_asked_for_nothing_but_its_own_spells(self, files: Filesystem):
        with pytest.raises(TypeError, match=r"does not cast shell\.exec"):
            await files.cast(Exec(cmd="ls"), CASTING)


class TestSwaps:
    """Somebody swaps a folder for a link to the outside, over and over, while we read and write through it."""

    ROUNDS = 1000

    @pytest.fixture
    def swapped(self, workspace: Path, outside: Path):
        (workspace / "inside").mkdir()
        (workspace / "inside" / "secret").write_text("harmless")
        (workspace / "link").symlink_to("../outside")
        stop, swaps = threading.Event(), []

        real, link, path = (str(workspace / name) for name in ("inside", "link", "path"))
        numbers = count()

        def swap() -> None:
            while not stop.is_set():
                for here in (real, link):
                    put_in_place(here)
                    swaps.append(here)
                    os.rename(path, here)

        def put_in_place(here: str) -> None:
            while True:
                try:
                    return os.rename(here, path)
                except OSError:  # a writer made the folder while it was away
                    os.rename(path, f"{path}-made-{next(numbers)}")

        thread = threading.Thread(target=swap)
        thread.start()
        yield swaps
        stop.set()
        thread.join()

    async def test_a_read_never_leaves(self, files: Filesystem, swapped: list[str]):
        seen: set[str] = set()
        while not {"harmless", "denied"} <= seen or len(swapped) < self.ROUNDS:
            for path in ("path/secret", "path/../path/secret"):
                try:
                    seen.add((await read(files, path))["text"])
                except SpellFailed as failure:
                    seen.add(failure.code)
        assert seen <= {"harmless", "denied", "failed"}

    async def test_a_write_never_leaves(self, files: Filesystem, swapped: list[str], outside: Path, tmp_path: Path):
        before = os.listdir(tmp_path), _everything(outside)
        seen: set[str] = set()
        number = 0
        while not {"written", "denied"} <= seen or number < self.ROUNDS:
            number += 1
            try:
                await write(files, f"path/new-{number}", "pwned", overwrite=number % 2 == 0)
                seen.add("written")
            except SpellFailed as failure:
                seen.add(failure.code)
        assert (os.listdir(tmp_path), _everything(outside)) == before


def _everything(folder: Path, without: str = "\0") -> list[str]:
    """All paths below the folder, but for one subfolder."""
    found = (str(path.relative_to(folder)) for path in folder.rglob("*"))
    return sorted(path for path in found if not path.startswith(without))
