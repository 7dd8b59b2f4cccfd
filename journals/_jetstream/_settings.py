"""What a stream must be set to, and the comparison with what it is. `docs/jetstream.md` explains each setting."""

from __future__ import annotations

from typing import Any

import msgspec

from journals._errors import StoreMismatch
from journals._store import SHORT_LIVED_S

_MS = 1_000_000


class StreamSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A stream of one journal, as the JetStream API wants it. Durations are in nanoseconds."""

    name: str
    subjects: list[str]
    retention: str = "limits"
    storage: str = "file"
    discard: str = "new"
    num_replicas: int = 1
    max_consumers: int = -1
    max_msgs: int = -1
    max_bytes: int = -1
    max_age: int = 0
    max_msgs_per_subject: int = -1
    max_msg_size: int = -1
    duplicate_window: int = 100 * _MS
    deny_delete: bool = True
    deny_purge: bool = True
    allow_direct: bool = True
    allow_atomic: bool = True
    allow_rollup_hdrs: bool = False


# What an operator may set otherwise without breaking a promise.
_FREE = {"max_bytes", "max_consumers", "num_replicas", "duplicate_window"}
_FREE_IF_SHORT_LIVED = _FREE | {"max_age"}
# What a journal never has: it would lose what was acknowledged, acknowledge nothing, or keep it under other names.
_NEVER = ("allow_msg_ttl", "persist_mode", "no_ack", "sealed", "subject_transform", "mirror")
_NOT_SET = (None, False, "", "default")


def journal_settings(coven: str, journal: str, *, replicas: int, short_lived: bool) -> StreamSettings:
    """The settings of a journal's stream: `<coven>.<journal>.>`, nothing ever deleted, fenced, batched.

    A short-lived journal forgets after ten minutes.
    """
    name, subjects = f"{coven}-{journal}", [f"{coven}.{journal}.>"]
    if short_lived:
        age = SHORT_LIVED_S * 1000 * _MS
        return StreamSettings(name=name, subjects=subjects, num_replicas=replicas, discard="old", max_age=age)
    return StreamSettings(name=name, subjects=subjects, num_replicas=replicas)


def check_settings(wanted: StreamSettings, found: dict[str, Any]) -> None:
    """Raise `StoreMismatch` naming every setting that is not what it must be.

    Servers silently ignore settings that they do not know, so the answer is compared and not believed.
    """
    free = _FREE_IF_SHORT_LIVED if wanted.max_age else _FREE
    wrong = [
        f"{name} is {found.get(name)!r} and must be {value!r}"
        for name, value in msgspec.to_builtins(wanted).items()
        if name not in free and found.get(name, _default_of(value)) != value
    ]
    wrong += [f"{name} is {found[name]!r} and must not be set" for name in _NEVER if found.get(name) not in _NOT_SET]
    if wrong:
        raise StoreMismatch(
            f"stream {wanted.name!r} is not set as Coven needs it: {'; '.join(wrong)}. "
            "Upgrade the server, or correct the stream with `nats stream edit`"
        )


def _default_of(value: object) -> object:
    return False if isinstance(value, bool) else 0 if isinstance(value, int) else None
