"""Logs: to standard error, one line each, warnings and worse unless more is asked for."""

from __future__ import annotations

import io
import logging
import os
import sys
import time
from collections.abc import Mapping, MutableMapping
from typing import Any, TextIO

import structlog

from leaves.chats._terminal import visible

_LEVELS = {"quiet": logging.WARNING, "verbose": logging.INFO, "debug": logging.DEBUG}


class _StandardError:
    """Prints to whatever `sys.stderr` is now: a prompt on the terminal puts itself in between."""

    def msg(self, message: str) -> None:
        if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison] - it is, when closed at the start
            print(message, file=sys.stderr, flush=True)

    log = debug = info = warning = warn = error = critical = fatal = exception = failure = msg


class _ToStandardError(logging.Handler):
    """The same for the loggers of the standard library."""

    def emit(self, record: logging.LogRecord) -> None:
        shown = logging.makeLogRecord({**vars(record), "levelname": record.levelname.lower()})
        _StandardError().msg(visible(self.format(shown)))


def _all_visible(_logger: object, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Without what could steer a terminal: a log tells what others said, too."""
    return {name: visible(value) if isinstance(value, str) else value for name, value in event.items()}


def _visible_traceback(output: TextIO, error: Any) -> None:
    told = io.StringIO()
    structlog.dev.plain_traceback(told, error)
    output.write(visible(told.getvalue()))


def configure_logs(level: str = "quiet") -> None:
    """Send all logs to standard error. `level` is `quiet` (warnings and worse), `verbose` or `debug`."""
    threshold = _LEVELS[level]
    terminal = sys.stderr is not None and sys.stderr.isatty()  # pyright: ignore[reportUnnecessaryComparison]
    colors = terminal and "NO_COLOR" not in os.environ
    clock = "%H:%M:%S" if terminal else "%Y-%m-%dT%H:%M:%SZ"
    chain: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(clock, utc=not terminal),
        _all_visible,
        structlog.dev.ConsoleRenderer(
            colors=colors, pad_event_to=0, pad_level=False, exception_formatter=_visible_traceback
        ),
    ]
    structlog.configure(
        processors=chain,
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=lambda *_: _StandardError(),
    )
    handler = _ToStandardError()
    formatter = logging.Formatter("%(asctime)s [%(levelname)s] %(message)s", clock)
    formatter.converter = time.localtime if terminal else time.gmtime
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [*(other for other in root.handlers if not isinstance(other, _ToStandardError)), handler]
    root.setLevel(threshold)
