"""The gates of a case: real ones, served in the entity's own process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from branches.agents.gate import Gate, GateFailed, GateFunction, GateUse
from branches.agents.gates import CALL_AGENT, CALL_AGENT_BATCH, DONE, GateDefinition, canonical
from leaves import gates
from tests.conformance import case as written
from tests.conformance.passing import PassingClock

_BUILT_IN = {definition.name: definition for definition in (DONE, CALL_AGENT, CALL_AGENT_BATCH)}
_ANYTHING: dict[str, Any] = {"type": "object"}
LIBRARY = ("echo", "fetch", "read", "write")
"""The names of the gates that need no more than their name."""


class UnknownGate(Exception):
    """A gate without behaviour, and none of that name in the library."""


class Gates:
    """Makes the gates of one case, and counts how often each function ran."""

    def __init__(self, root: Path, clock: PassingClock) -> None:
        self._root, self._clock = root, clock
        self.runs: list[str] = []

    def make(self, given: str | written.Gate) -> Gate | GateDefinition | str:
        """The gate as `circle` takes it. Raises `UnknownGate`."""
        wanted = written.Gate(name=given) if isinstance(given, str) else given
        built_in = _BUILT_IN.get(canonical(wanted.name))
        if built_in is not None and wanted.behavior is None and wanted.result is UNSET:
            return wanted.name if wanted.parameters is None else _shaped(built_in, wanted)
        if wanted.behavior is not None or wanted.result is not UNSET:
            definition = GateDefinition(wanted.name, wanted.description, _ANYTHING)
            return Gate(_shaped(definition, wanted), self._fixed(wanted))
        return self._of_library(wanted)

    def _of_library(self, wanted: written.Gate) -> Gate:
        """One of the gates that come with Coven; files are beneath the case's own folder unless it says where."""
        given = {key: self._bound(value) for key, value in wanted.dependencies.items()}
        if wanted.name == "echo":
            made = gates.echo
        elif wanted.name == "read":
            made = gates.read(**{"root": self._root, **given}, ephemeral=wanted.ephemeral)
        elif wanted.name == "write":
            made = gates.write(**{"root": self._root, **given})
        elif wanted.name == "fetch":
            made = gates.fetch(**given, ephemeral=wanted.ephemeral)
        else:
            raise UnknownGate(f"gate {wanted.name!r} has neither result nor behaviour; the library has {LIBRARY}")
        return replace(made, definition=_shaped(made.definition, wanted), function=self._counted(made))

    def _counted(self, made: Gate) -> GateFunction:
        async def serve(arguments: Mapping[str, Any], use: GateUse) -> Any:
            self.runs.append(made.name)
            try:
                return await made.function(arguments, use)
            except GateFailed as failed:
                if failed.code == "bad_arguments":  # they did not fit: the function itself was not reached
                    self.runs.remove(made.name)
                raise

        return serve

    def _bound(self, value: Any) -> Any:
        """A dependency; an absolute path is one in the case's own folder."""
        return self._root / value.lstrip("/") if isinstance(value, str) and value.startswith("/") else value

    def _fixed(self, wanted: written.Gate) -> GateFunction:
        async def serve(arguments: Mapping[str, Any], use: GateUse) -> Any:
            self.runs.append(wanted.name)
            if wanted.behavior == "delay":
                await self._clock.spend(wanted.delay_ms / 1000)
            elif wanted.behavior == "throw":
                raise RuntimeError(wanted.error)
            elif wanted.behavior == "hang":
                await self._clock.hang()
            elif wanted.behavior == "unserialisable":
                return object()
            return None if wanted.result is UNSET else written.whole(wanted.result)

        return serve


def _shaped(definition: GateDefinition, wanted: written.Gate) -> GateDefinition:
    parameters = definition.parameters if wanted.parameters is None else wanted.parameters
    return replace(
        definition,
        parameters=parameters,
        description=wanted.description or definition.description,
        ephemeral=wanted.ephemeral,
    )
