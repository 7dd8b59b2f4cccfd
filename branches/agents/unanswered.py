"""Who waits for an answer: the prompts that have no response yet, found by folding the journal."""

from __future__ import annotations

from typing import Final, TypeGuard

from branches.agents.entries import AgentPrompt, AgentResponse
from branches.settled import Settled
from journals import Entry, Lane, Record, Unreadable

SETTLED_SESSION: Final = "agents.settled"
_KINDS: Final = (AgentPrompt.kind(), AgentResponse.kind())


def is_prompt(record: Record[Entry]) -> TypeGuard[Record[AgentPrompt]]:
    """Whether the record asks us for a response; one that was imported from elsewhere does not."""
    return isinstance(record.entry, AgentPrompt) and not record.imported


def is_asking(record: Record[Entry]) -> bool:
    """Whether the record is to have a response: a prompt, or one that cannot be read, which is told so."""
    unreadable = isinstance(record.entry, Unreadable) and record.kind == AgentPrompt.kind() and record.lane is Lane.IN
    return is_prompt(record) or (unreadable and not record.imported)


async def open_prompts(settled: Settled) -> list[Record[Entry]]:
    """The prompts that have no response, in order; opens them in `settled`. Memory grows with what is open."""
    prompts: dict[tuple[str, str | None], Record[Entry]] = {}
    async for record in settled.restart(_KINDS):
        if is_asking(record):
            prompts[record.session, record.id] = record
        elif record.kind == AgentResponse.kind():
            prompts.pop((record.session, record.causation_id), None)
    settled.open(prompt.position for prompt in prompts.values())
    return list(prompts.values())
