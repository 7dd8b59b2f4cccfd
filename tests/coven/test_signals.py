"""The first signal stops in order, the second one at once."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

SCRIPT = """
import asyncio, sys
from coven.signals import StopSignals

async def main():
    with StopSignals(asyncio.current_task(), within={within}) as signals:
        try:
            if {by_itself}:
                signals.stopping()
            print("up", flush=True)
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            print("stopping", flush=True)
            if {stubborn}:
                await asyncio.sleep(3600)
        print("asked" if signals.asked else "not asked", flush=True)

asyncio.run(main())
"""


@pytest.fixture
def process():
    started: list[subprocess.Popen[str]] = []

    def start(*, stubborn: bool = False, within: float = 60, by_itself: bool = False) -> subprocess.Popen[str]:
        script = SCRIPT.format(stubborn=stubborn, within=within, by_itself=by_itself)
        pipe = subprocess.PIPE
        process = subprocess.Popen([sys.executable, "-c", script], stdout=pipe, stderr=pipe, text=True)
        started.append(process)
        assert process.stdout.readline() == "up\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_the_first_signal_cancels(process):
    running = process(stubborn=False)
    running.send_signal(signal.SIGTERM)
    out, _ = running.communicate(timeout=60)
    assert (running.returncode, out) == (0, "stopping\nasked\n")


def test_the_second_signal_ends_at_once(process):
    running = process(stubborn=True)
    running.send_signal(signal.SIGINT)
    assert running.stdout.readline() == "stopping\n"
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "stopped at once" in err


def test_stopping_that_takes_too_long_is_cut_off(process):
    running = process(stubborn=True, within=0.05)
    running.send_signal(signal.SIGTERM)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "stopping took longer than 0.05 s" in err


def test_an_interrupt_while_it_stops_by_itself_is_the_second_one(process):
    running = process(by_itself=True)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "stopped at once" in err
