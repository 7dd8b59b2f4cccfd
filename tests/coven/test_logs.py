"""Logs: one form for all of them, and nothing in it that steers the terminal they are read on."""

from __future__ import annotations

import subprocess
import sys

LOGGED = """
import logging, structlog
from coven.logs import configure_logs

configure_logs("debug")
said = "red: \\x1b[31m, bell: \\x07, half: \\ud800"
logging.getLogger("coven.x").error("it raised %s", said)
structlog.get_logger("coven.host").warning("service failed", error=said)
try:
    raise ValueError(said)
except ValueError:
    logging.getLogger("coven.x").debug("in full", exc_info=True)
    structlog.get_logger("coven.host").debug("in full", exc_info=True)
"""


def test_what_others_said_does_not_steer_the_terminal():
    ran = subprocess.run([sys.executable, "-c", LOGGED], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count("red: [31m, bell: , half: \\ud800") == 4
    assert ran.stderr.replace("\n", "").isprintable()
