"""The outcomes of a turn, said the same way in every language."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from branches.agents.medium import CodeEnding, CodeError, CodeOutcome, Limits
from leaves.mediums.printed import Printed, clean


class Outcomes:
    """Makes the outcome of one turn, with what it printed."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.printed = Printed(limits.output_chars)

    def __repr__(self) -> str:
        return f"<Outcomes {self.printed!r}>"

    def completed(self, value: Any | UnsetType = UNSET, *, as_text: bool = False) -> CodeOutcome:
        """The code came to its end."""
        outcome = self._outcome(CodeEnding.COMPLETED)
        if value is UNSET:
            return outcome
        text = value if as_text else json.dumps(value, ensure_ascii=False)
        if len(text) > self._limits.output_chars:
            value, as_text = clean(text[: self._limits.output_chars]), True
            outcome = msgspec.structs.replace(outcome, output_cut=True)
        return msgspec.structs.replace(outcome, value=value, value_is_text=as_text)

    def finished(self, *, restored: bool = False) -> CodeOutcome:
        """The code called `done`."""
        return self._outcome(CodeEnding.FINISHED, restored=restored)

    def raised(self, error: CodeError) -> CodeOutcome:
        """The code did not catch an error."""
        return self._outcome(CodeEnding.RAISED, error)

    def too_slow(self, *, restored: bool) -> CodeOutcome:
        """The code used up its own time."""
        message = f"the code ran longer than {self._limits.cpu_s:g} seconds of its own time"
        return self._outcome(CodeEnding.TIMED_OUT, CodeError("TimeoutError", message), restored=restored)

    def too_long(self, *, restored: bool) -> CodeOutcome:
        """The turn used up its whole time, gates included."""
        message = f"the turn lasted longer than {self._limits.wall_s:g} seconds"
        return self._outcome(CodeEnding.TIMED_OUT, CodeError("TimeoutError", message), restored=restored)

    def out_of_memory(self) -> CodeOutcome:
        """The code wanted more memory than it may have, or left none for the next turn."""
        message = f"the code filled the {self._limits.memory_bytes} bytes of memory that it has"
        return self._outcome(CodeEnding.OUT_OF_MEMORY, CodeError("MemoryError", message), restored=True)

    def crashed(self, name: str, message: str) -> CodeOutcome:
        """The engine could not go on."""
        return self._outcome(CodeEnding.CRASHED, CodeError(name, message), restored=True)

    def too_much_code(self, length: int) -> CodeOutcome:
        """The code is longer than code may be."""
        message = f"the code has {length} characters; {self._limits.code_chars} fit"
        return self._outcome(CodeEnding.RAISED, CodeError("ValueError", message))

    def _outcome(self, ending: CodeEnding, error: CodeError | None = None, *, restored: bool = False) -> CodeOutcome:
        printed = self.printed
        return CodeOutcome(ending=ending, output=printed.text, output_cut=printed.cut, error=error, restored=restored)
