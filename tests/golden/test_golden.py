"""Old journals always load: a file of every version of every kind is kept, and must still be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from journals import Unreadable
from tests.golden.samples import FOLDER, SAMPLES, path_of, registries

FILES = sorted(path.relative_to(FOLDER) for path in FOLDER.glob("*/*.json"))
CURRENT = [(journal, sample) for journal, samples in SAMPLES.items() for sample in samples]


@pytest.mark.parametrize("file", FILES, ids=str)
def test_every_released_version_loads(file: Path) -> None:
    kind, version = file.stem.rsplit(".v", 1)
    entry = registries()[file.parent.name].decode(kind.partition("+")[0], int(version), (FOLDER / file).read_bytes())
    assert not isinstance(entry, Unreadable), entry


@pytest.mark.parametrize(("journal", "sample"), CURRENT, ids=lambda value: getattr(value, "kind", lambda: value)())
def test_the_fields_of_a_released_version_do_not_change(journal: str, sample: object) -> None:
    from journals import Entry

    assert isinstance(sample, Entry)
    path = path_of(journal, sample)
    assert path.exists(), "a new kind or version: run `python -m tests.golden.samples` and commit the file"
    written = registries()[journal].encode(sample) + b"\n"
    assert path.read_bytes() == written, "the fields changed: raise `schema_version` and register an upcast"


def test_every_kind_has_a_sample() -> None:
    sampled = {journal: {sample.kind() for sample in samples} for journal, samples in SAMPLES.items()}
    assert sampled == {journal: set(registry.kinds) for journal, registry in registries().items()}
