"""`pytest tests/conformance --suite PATH --store jetstream`: any suite, over either store."""

from __future__ import annotations

from pathlib import Path

import pytest

OWN = Path(__file__).parent / "suite"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance")
    group.addoption("--suite", action="append", default=None, metavar="PATH", help="a suite to run instead of our own")
    group.addoption("--store", choices=["memory", "jetstream"], default="memory", help="what the cases run over")


def suites(config: pytest.Config) -> list[Path]:
    """The files that were asked for, or those of the project's own suite. Raises `pytest.UsageError`."""
    named = [Path(each) for each in config.getoption("--suite", None) or ()]
    for path in named:
        if not path.is_file():
            raise pytest.UsageError(f"--suite {path}: there is no such file")
    return named or sorted(OWN.glob("*.yaml"))
