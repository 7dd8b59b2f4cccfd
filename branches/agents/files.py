"""Files of an episode: the images that came with its prompt, and what its gates gave to go with the answer."""

from __future__ import annotations

from collections.abc import Callable

from branches.agents.entries import AgentPrompt, AgentToolResult
from branches.attachment import Attachment
from journals import Entry, Record
from policies import Outcome


def images_of(prompt: AgentPrompt) -> tuple[Attachment, ...]:
    """The images that the crystal is shown with the intent."""
    return tuple(each for each in prompt.attachments if each.is_image)


class GivenFiles:
    """The files that results of gate calls brought, in the order in which they came."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[Attachment, ...]] = {}

    def __repr__(self) -> str:
        return f"<GivenFiles of {len(self._files)} calls>"

    def see(self, record: Record[Entry]) -> None:
        """Take in a record. The first result of a call counts."""
        entry = record.entry
        if isinstance(entry, AgentToolResult) and entry.attachments:
            self._files.setdefault(entry.correlation_id, entry.attachments)

    def of(self, outcome: Callable[[str], Outcome | None]) -> tuple[Attachment, ...]:
        """Those of calls that the episode has made, and whose result it has seen and not given up before."""
        found: list[Attachment] = []
        for call, files in self._files.items():
            seen = outcome(call)
            if seen is not None and not seen.steps[0].is_error:
                found += files
        return tuple(found)
