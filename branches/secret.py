"""A secret of the configuration: named in the file, read from the environment when it is used, never shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NoReturn

REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""`${NAME}`, the name being its group; and `$${`, which stands for a plain `${` and has no name."""


class SecretUnset(Exception):
    """The environment has no value for a variable that the configuration names."""

    def __init__(self, variable: str) -> None:
        super().__init__(f"the environment variable {variable} is not set; set it and start again")
        self.variable = variable


class Secret:
    """Text with `${NAME}` in it, e.g. `Secret("${ANTHROPIC_API_KEY}", os.environ)`.

    An options struct of a leaf gives a field this type; the value is in no attribute, no repr, no JSON and no pickle:
    only `reveal` gives it.
    """

    __slots__ = ("_environ", "template")

    def __init__(self, template: str, environ: Mapping[str, str]) -> None:
        self.template = template
        self._environ = environ

    def __repr__(self) -> str:
        return f"Secret({self.template!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.template == self.template

    def __hash__(self) -> int:
        return hash(self.template)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not written anywhere")

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that it names."""
        return tuple(name for name in REFERENCE.findall(self.template) if name)

    def reveal(self) -> str:
        """The value, for the call that needs it. Raises `SecretUnset`."""
        return fill(self.template, self._environ)


def fill(template: str, environ: Mapping[str, str]) -> str:
    """The text with every `${NAME}` replaced. Raises `SecretUnset`; an empty variable counts as unset."""

    def value(match: re.Match[str]) -> str:
        if not match[1]:
            return "${"
        found = environ.get(match[1])
        if not found:
            raise SecretUnset(match[1])
        return found

    return REFERENCE.sub(value, template)
