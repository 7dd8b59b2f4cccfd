"""Every error that a journal raises, with the facts as fields and the cure in the message."""

from __future__ import annotations


class JournalError(Exception):
    """Base of all errors of this package."""


class InvalidName(JournalError):
    """A session, coven or journal name that cannot be stored."""

    def __init__(self, what: str, name: str, reason: str) -> None:
        super().__init__(f"{what} {name[:80]!r} cannot be used: {reason}")
        self.what, self.name, self.reason = what, name, reason


class InvalidEntry(JournalError):
    """An entry that cannot be written: unregistered, not encodable, or too large."""


class UnknownKind(JournalError):
    """A kind that no registered entry class has."""

    def __init__(self, kind: str, known: tuple[str, ...]) -> None:
        super().__init__(f"kind {kind!r} is not registered here; known kinds: {', '.join(known) or 'none'}")
        self.kind, self.known = kind, known


class IdConflict(JournalError):
    """An id that was already used in this session for something else."""

    def __init__(self, journal: str, session: str, id: str, position: int) -> None:
        super().__init__(
            f"id {id!r} of session {session!r} already stands at position {position} of journal {journal!r} "
            "with other content; an id names one content for ever, derive it from what it names"
        )
        self.journal, self.session, self.id, self.position = journal, session, id, position


class ClaimLost(JournalError):
    """Somebody else has taken this session or route over; stop, and write nothing more for it."""

    def __init__(self, journal: str, what: str, owner: str, newer: int) -> None:
        super().__init__(
            f"{what} of journal {journal!r} was taken over at position {newer}; "
            f"{owner!r} no longer owns it and must stop"
        )
        self.journal, self.what, self.owner, self.newer = journal, what, owner, newer


class FenceRefused(JournalError):
    """The subject moved on since it was last read: look, then try again. Never reaches users."""


class Unacknowledged(JournalError):
    """A write whose acknowledgement never came: it may or may not be stored. Look before sending again."""


class BatchLost(Unacknowledged):
    """An atomic batch of which the server has not had, or not kept, every part: it has stored nothing of it."""


class StoreUnavailable(JournalError):
    """The store cannot be reached, or does not answer."""


class StoreFull(JournalError):
    """The store refuses writes because a limit is reached."""


class StoreMismatch(JournalError):
    """The server is too old, or its configuration is not the one that Coven needs."""


class StoreRefused(JournalError):
    """The server refuses these credentials, or does not permit what Coven needs."""


class AppendOnly(JournalError):
    """Raised by every attempt to delete or edit what is recorded."""
