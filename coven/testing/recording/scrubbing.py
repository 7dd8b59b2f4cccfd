"""What is never written into a cassette: keys in headers and queries, and secrets of the environment anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast
from urllib.parse import parse_qsl, quote, urlencode

import msgspec

from coven.testing.recording.cassette import Body

SCRUBBED: Final = "[scrubbed]"
_SHORTEST: Final = 8
_SECRET_NAME: Final = re.compile(
    r"(^|_)((API)?KEY|TOKEN|SECRET|PASS|PASSWORD|PASSWD|PASSPHRASE|PAT|CREDENTIALS?)(_?\d+)?$|APIKEY$", re.IGNORECASE
)
_CREDENTIALS: Final = ("authorization", "x-api-key", "x-goog-api-key", "api-key", "proxy-authorization", "cookie")
_IN_QUERY: Final = {"key", "api_key", "apikey", "api-key", "token", "access_token", "sig", "signature", "secret"}
_FIELD: Final = re.compile(
    r'("(?:api[-_]?key|access[-_]?token|refresh[-_]?token|id[-_]?token|client[-_]?secret|secret|password|authorization|'
    r'x-api-key|x-goog-api-key)"\s*:\s*)"(?:[^"\\]|\\.)*"',
    re.IGNORECASE,
)
"""A field of JSON that says by its name that it holds a secret."""
_KEPT: Final = {
    *("content-type", "anthropic-version", "anthropic-beta", "openai-beta"),
    *("retry-after", "retry-after-ms", "x-should-retry"),
}
"""Of headers only these are kept: what a provider or a proxy adds is nobody's business."""


def credentials(headers: Mapping[str, str]) -> list[str]:
    """The secrets that a request carries in its headers."""
    given = [headers[name] for name in _CREDENTIALS if name in headers]
    return [value.partition(" ")[2] or value for value in given]


def keys_of(headers: Mapping[str, str], environ: Mapping[str, str]) -> list[str]:
    """The variables that a request's secrets stand in."""
    carried = credentials(headers)
    return sorted(name for name, value in environ.items() if value and value in carried)


def in_query(query: str) -> list[str]:
    """The secrets that stand in a query."""
    return [value for name, value in parse_qsl(query) if name.lower() in _IN_QUERY]


class Scrubber:
    """Takes secrets out of what is kept. `also` are further texts that must not stand there."""

    def __init__(self, environ: Mapping[str, str], also: Iterable[str] = ()) -> None:
        named = [value for name, value in environ.items() if _SECRET_NAME.search(name)]
        self._secrets: set[str] = {each for each in also if each}
        self.add(named)

    def __repr__(self) -> str:
        return f"<Scrubber {len(self._secrets)} secrets>"

    def add(self, secrets: Iterable[str]) -> None:
        """Further secrets; very short ones are no secrets, and would be found in any text."""
        self._secrets.update(each for each in secrets if len(each) >= _SHORTEST)

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers that are kept."""
        return {name: self.text(value) for name, value in headers.items() if name.lower() in _KEPT}

    def target(self, path: str, query: str) -> str:
        """A path with its query."""
        pairs = [
            (name, SCRUBBED if name.lower() in _IN_QUERY else self.text(value))
            for name, value in parse_qsl(query, keep_blank_values=True)
        ]
        return self.text(path) + (f"?{urlencode(pairs, safe='[]')}" if pairs else "")

    def body(self, body: Body) -> Body:
        """A body without secrets, whatever it is made of."""
        if body.json is not msgspec.UNSET:
            return Body(json=self._value(body.json))
        if body.lines is not None:
            return Body(lines=tuple(self.text("\n".join(body.lines)).split("\n")))
        return body

    def text(self, text: str) -> str:
        """A text without secrets, also where they stand as JSON or in an address."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            for written in {secret, msgspec.json.encode(secret).decode()[1:-1], quote(secret, safe="")}:
                text = text.replace(written, SCRUBBED)
        return _FIELD.sub(rf'\1"{SCRUBBED}"', text)

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._value(each) for each in cast("list[Any]", value)]
        if isinstance(value, dict):
            return {self.text(name): self._field(name, each) for name, each in cast("dict[str, Any]", value).items()}
        return value

    def _field(self, name: str, value: Any) -> Any:
        secret = isinstance(value, str) and _FIELD.fullmatch(f'"{name}":""') is not None
        return SCRUBBED if secret else self._value(value)
