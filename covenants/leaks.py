"""Secrets written in clear: how they look, what options they stand under, and how to keep them out of messages."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from branches.secret import REFERENCE

_SHAPES = {
    "an Anthropic key": r"sk-ant-[A-Za-z0-9_-]{16,}",
    "an OpenAI key": r"sk-(?!ant-)(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{20,}",
    "a Google key": r"AIza[A-Za-z0-9_-]{30,}",
    "a Slack token": r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}",
    "a Discord token": r"[MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
    "a GitHub token": r"(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})",
    "an AWS key": r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    "a NATS seed": r"S[UAO][A-Z2-7]{56}",
    "a web token": r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*",
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    "a password in an address": r"[a-z][a-z0-9+.-]{1,20}://[^\s/:@'\"]{0,200}:[^\s/@'\"]{1,200}@",
}
_BY_SHAPE = re.compile(
    "(?<![A-Za-z0-9_])(?:" + "|".join(f"(?P<s{number}>{shape})" for number, shape in enumerate(_SHAPES.values())) + ")"
)
_NAMES = tuple(_SHAPES)
_SECRET_WORDS = {"password", "passwd", "passphrase", "secret", "token", "apikey"}
_SECRET_KEYS = {"api", "private", "secret", "access", "auth", "signing", "encryption"}
_SUSPECT_WORDS = {"key", "auth", "authorization", "credential", "credentials", "dsn", "cookie", "bearer", "seed"}
_ENTROPY_BITS = 3.5
_ENTROPY_LENGTH = 20


def find_secrets(text: str) -> Iterator[tuple[int, str]]:
    """Where something stands that has the shape of a well-known secret, and what it looks like."""
    masked = REFERENCE.sub(lambda match: " " * len(match[0]), text)
    for match in _BY_SHAPE.finditer(masked):
        assert match.lastgroup is not None
        yield match.start(), _NAMES[int(match.lastgroup[1:])]


def redact(text: str) -> str:
    """The text with everything that looks like a secret taken out: for messages."""
    return _BY_SHAPE.sub("•••", text)


def names_a_secret(option: str, variables: Iterable[str] = ()) -> bool:
    """Whether an option of this name holds a secret, also because it is named like one of the leaf's variables."""
    words = _words(option)
    if any(_words(variable)[-len(words) :] == words for variable in variables):
        return True
    return words[-1] in _SECRET_WORDS or (words[-1] == "key" and len(words) > 1 and words[-2] in _SECRET_KEYS)


def looks_random(option: str, value: str) -> bool:
    """Whether a value under an option that may hold a secret looks like one: long, without spaces, irregular."""
    if not _SUSPECT_WORDS & set(_words(option)) or len(value) < _ENTROPY_LENGTH or not value.isascii():
        return False
    if any(char in value for char in " /\\") or not any(char.isdigit() for char in value):
        return False
    counts = Counter(value)
    entropy = -sum(count / len(value) * math.log2(count / len(value)) for count in counts.values())
    return entropy >= _ENTROPY_BITS


def _words(name: str) -> list[str]:
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return [word for word in re.split(r"[^a-z0-9]+", spaced.lower()) if word] or [name]
