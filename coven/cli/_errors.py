"""What went wrong, said to a person: one paragraph with what to do."""

from __future__ import annotations

import errno

from branches.agents.cantrip import InvalidCantrip
from branches.agents.forking import NoSuchTurn
from branches.agents.loom import UnknownTurn
from branches.catalogue import ExtraMissing, LeafFailed
from branches.secret import SecretUnset
from branches.service import first_error
from coven.configuration import ConfigError, NoAddress, UnknownService
from coven.exits import FAILED, WRONG
from coven.letters import LetterNotFound
from coven.looms import NoAgents, RewardFailed
from coven.project import FolderNotEmpty
from coven.recipe import CannotCast, CannotServe
from coven.shelf import UnknownJournal
from coven.supervisor import ServiceFailed, TakenOver
from coven.terminal import tell
from coven.unanswerable import Unanswerable
from journals import JournalError

UNREADABLE = "E101"
"""The problem of a file that is not there at all: nothing stands in it to point at."""
_EXPECTED = (LeafFailed, RewardFailed, JournalError, ServiceFailed, TakenOver, Unanswerable)
_WRONG = (
    *(CannotCast, UnknownService, SecretUnset, InvalidCantrip, FolderNotEmpty, UnknownJournal, LetterNotFound),
    *(NoAddress, NoAgents, UnknownTurn, NoSuchTurn, CannotServe, ExtraMissing),
)


def explain(error: BaseException) -> tuple[str, int]:
    """The message and the exit code of an error. The problems of a configuration are printed, each where it stands."""
    error = first_error(error)
    if isinstance(error, ConfigError):
        if [problem.code for problem in error.problems] == [UNREADABLE]:
            problem = error.problems[0]
            return f"{error.path}: {problem.message}; {problem.hint}", WRONG
        for problem in error.problems:
            tell(str(problem))
        return str(error), WRONG
    if isinstance(error, _WRONG):
        return str(error), WRONG
    if isinstance(error, _EXPECTED):
        return str(error), FAILED
    if isinstance(error, OSError):
        return _system(error), FAILED
    kind = type(error).__name__
    return (
        f"this is a bug in Coven ({kind}: {error}); what was acknowledged is safe in the journals. Run it again with "
        "COVEN_DEBUG=1 for the whole traceback, and please report that",
        FAILED,
    )


def _system(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{where}{error.strerror}; Coven must be able to write there: change its permissions or work elsewhere"
    if error.errno == errno.EADDRINUSE:
        return f"{where}{error.strerror or error}; another program listens there: choose another port"
    if error.errno == errno.ENOSPC:
        return f"{where}{error.strerror}; make room on that disk and start again"
    return f"{where}{error.strerror or error}"
