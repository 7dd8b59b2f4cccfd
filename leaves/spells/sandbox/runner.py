"""The sandbox's runner: a process of its own that runs one program, and ends it with everything that it started.

It gets its order as a line of JSON on standard input, which then stays open: when it closes, for whatever reason
(a cancelled cast, a killed service), the runner ends everything and goes. It is the reaper of all orphans below it, so
no descendant gets away by daemonising. It reads what the program prints, keeps the beginning of it, and writes one
report to standard output: a line of JSON and what it kept.

Only the standard library, and little of it: it starts for every command.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import time
from typing import NoReturn, TypedDict

from leaves.spells.sandbox.landlock import confine, landlock_abi

_ORDERS, _REPORTS = 0, 1
_PIPE_BYTES = 65536
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 24, 36, 38
_KEPT_CAPABILITIES = {0, 1, 3}  # CHOWN, DAC_OVERRIDE, FOWNER: what root needs to work on files of other users
_LAST_CAPABILITY = 63


class Order(TypedDict):
    """What to run. `granted` are paths with their Landlock rights, `limits` are names of `resource.RLIMIT_*`."""

    program: str
    argv: list[str]
    environment: dict[str, str]
    root: str
    granted: list[tuple[str, int]]
    network: bool
    limits: dict[str, int]
    timeout_s: float
    max_output_bytes: int


class Report(TypedDict):
    """What became of it: `ending` is `exited`, `timeout` or `not_started`; `reason` says why it was not started.

    `exit_code` is negative for a signal; `landlock` is the ABI that confined it, 0 for none; `kept` and `printed`
    count the bytes of standard output and standard error. What was kept follows the report, in this order.
    """

    ending: str
    exit_code: int
    reason: str
    landlock: int
    kept: tuple[int, int]
    printed: tuple[int, int]


class Stream:
    """One output of the program: its first bytes are kept, the rest is counted."""

    def __init__(self, file: int, limit: int) -> None:
        self.file, self._limit = file, limit
        self.kept = bytearray()
        self.printed = 0
        os.set_blocking(file, False)

    def read(self) -> bool:
        """Take what is there; False when there is no more, now or for ever."""
        try:
            part = os.read(self.file, _PIPE_BYTES)
        except BlockingIOError:
            return False
        self.printed += len(part)
        self.kept += part[: self._limit - len(self.kept)]
        return bool(part)


def main() -> None:
    """Do one order and end."""
    line = _read_line()
    if not line:
        return
    order: Order = json.loads(line)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, _note)
    done = run(order, woken)
    if done is not None:
        report, printed = done
        _write(_REPORTS, json.dumps(report).encode() + b"\n" + printed)


def run(order: Order, woken: int) -> tuple[Report, bytes] | None:
    """Run the program to its end, to the timeout, or until nobody wants it any more (None). Nothing is left behind."""
    report: Report = {
        "ending": "exited",
        "exit_code": 0,
        "reason": "",
        "landlock": landlock_abi(),
        "kept": (0, 0),
        "printed": (0, 0),
    }
    try:
        program, outputs = _start(order)
    except OSError as error:
        report["ending"], report["reason"] = "not_started", str(error).lower()
        return report, b""
    streams = [Stream(output, order["max_output_bytes"]) for output in outputs]
    deadline = time.monotonic() + order["timeout_s"]
    ending, status = _supervise(program, streams, woken, deadline)
    _end_descendants(program)
    if ending == "unwanted":
        return None
    for stream in streams:
        while stream.read():
            pass
    report["ending"], report["exit_code"] = ending, os.waitstatus_to_exitcode(status)
    report["kept"] = (len(streams[0].kept), len(streams[1].kept))
    report["printed"] = (streams[0].printed, streams[1].printed)
    return report, bytes(streams[0].kept + streams[1].kept)


def _supervise(program: int, streams: list[Stream], woken: int, deadline: float) -> tuple[str, int]:
    """Wait for the program and take what it prints; gives how that ended, and the wait status if it `exited`."""
    open_streams = {stream.file: stream for stream in streams}
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([_ORDERS, woken, *open_streams], [], [], left)
        for file in ready:
            if file in open_streams and not open_streams[file].read():
                del open_streams[file]
        if woken in ready:
            if signal.SIGTERM in os.read(woken, _PIPE_BYTES):
                return "unwanted", 0
            status = _reap(program)
            if status is not None:
                return "exited", status
        if _ORDERS in ready and not os.read(_ORDERS, _PIPE_BYTES):
            return "unwanted", 0
    return "timeout", 0


def _reap(program: int) -> int | None:
    """Take leave of all that have ended; gives the program's status if it is among them."""
    status = None
    while True:
        try:
            process, found = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if process == 0:
            return status
        if process == program:
            status = found


def _end_descendants(program: int) -> None:
    """Kill until the kernel says that no child is left; orphans of the killed become our children."""
    if not sys.platform.startswith("linux"):  # no reaper there: what stayed in the program's group can be reached
        _kill(-program)
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
            children = _children()
            for child in children:
                _kill(child)
            if children:
                os.waitpid(-1, 0)
            else:  # it came to us after we looked
                time.sleep(0.001)
        except ChildProcessError:
            return


def _children() -> list[int]:
    """Our children now, from /proc; empty where there is none."""
    own, found = str(os.getpid()), list[int]()
    try:
        names = os.listdir("/proc")
    except FileNotFoundError:
        return found
    for name in names:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = file.read().rpartition(b")")[2].split()[1].decode()
            except (FileNotFoundError, ProcessLookupError, IndexError):
                continue
            if parent == own:
                found.append(int(name))
    return found


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _start(order: Order) -> tuple[int, tuple[int, int]]:
    """Start the program; gives its id and its two outputs. Raises `OSError` if it cannot be run."""
    output, output_end = os.pipe()
    errors, errors_end = os.pipe()
    problem, problem_end = os.pipe()
    program = os.fork()
    if program == 0:
        _become(order, output_end, errors_end, problem_end)
    for end in (output_end, errors_end, problem_end):
        os.close(end)
    with open(problem, "rb") as file:
        failure = file.read().decode(errors="replace")
    if failure:
        os.waitpid(program, 0)
        raise OSError(failure)
    return program, (output, errors)


def _become(order: Order, output: int, errors: int, problem: int) -> NoReturn:
    """In the child: give up everything but the workspace, and become the program."""
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(errors, 2)
        root = os.open(order["root"], os.O_RDONLY | os.O_DIRECTORY)
        os.fchdir(root)
        _limit(order["limits"])
        _give_up_privileges()
        confine(root, order["granted"], network=order["network"])
        os.execve(order["program"], order["argv"], order["environment"])
    except OSError as error:
        _write(problem, (error.strerror or repr(error)).encode())
    except BaseException as error:  # noqa: BLE001 - a forked child must never return into its parent's code
        _write(problem, repr(error).encode(errors="replace"))
    os._exit(127)


def _limit(limits: dict[str, int]) -> None:
    import resource

    for name, value in limits.items():
        number = getattr(resource, name, None)
        if number is not None:
            hard = resource.getrlimit(number)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(number, (value, value))


def _give_up_privileges() -> None:
    """No way up from here; and for root, no power but over files."""
    if os.geteuid() == 0:
        for capability in range(_LAST_CAPABILITY + 1):
            if capability not in _KEPT_CAPABILITIES:
                _prctl(_PR_CAPBSET_DROP, capability)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def _prctl(option: int, value: int) -> None:
    """Ask the Linux kernel for something about this process; other systems have nothing like it."""
    if sys.platform.startswith("linux"):
        zero = ctypes.c_ulong(0)
        ctypes.CDLL(None).prctl(ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero)


def _read_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(_ORDERS, _PIPE_BYTES)
        if not part:
            return b""
        line += part
    return line


def _write(file: int, body: bytes) -> None:
    while body:
        body = body[os.write(file, body) :]


def _note(number: int, frame: object) -> None:
    """The wake-up pipe has the number already."""
