"""`python -m benchmarks [--only NAME ...] [--profile process|power] [--scale 0.1]`: print the table, write JSON."""

from __future__ import annotations

import argparse
import asyncio
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.harness import Result, show, write

ALL = (
    "append",
    "read",
    "sessions",
    "hop",
    "hop_at_rate",
    "round_trip",
    "turn",
    "turn_memory",
    "folded",
    "entities",
    "resume",
    "replay",
    "code_turn",
    "crystal",
    "first_text",
    "start",
)
_BY_PROFILE = ("append", "hop", "hop_at_rate", "round_trip")


async def main() -> int:
    """Run what was asked for; 1 when a promise does not hold."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=ALL, default=ALL, help="the benchmarks to run (all)")
    parser.add_argument("--profile", nargs="+", choices=("process", "power"), default=("process", "power"))
    parser.add_argument("--scale", type=float, default=1.0, help="how much work, 1 is the full measure")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/latest.json"), help="where to write")
    options = parser.parse_args()
    results: list[Result] = []
    for name in options.only:
        for profile in options.profile:
            if profile == "power" and name not in _BY_PROFILE and "process" in options.profile:
                continue  # the others do not depend on how writes are made durable, or are promised for one profile
            print(f"{name} ({profile}) ...", file=sys.stderr, flush=True)
            results += await import_module(f"benchmarks.{name}").run(profile, options.scale)
    show(results)
    write(results, options.json)
    return int(any(result.holds is False for result in results))


if __name__ == "__main__":
    if sys.platform == "win32":
        sys.exit(asyncio.run(main()))
    import uvloop

    sys.exit(uvloop.run(main()))
