"""The kinds of the Agents branch."""

from __future__ import annotations

from branches.agents.entries import (
    AgentChunk,
    AgentPrompt,
    AgentResponse,
    AgentStreamCompleted,
    AgentThought,
    AgentToolCall,
    AgentToolFault,
    AgentToolResult,
)
from branches.agents.internal import AgentsSettled, AgentUtterance, CrystalCalled, CrystalFailed, EntityCast
from branches.manifest import Direction, Kind, Manifest

AGENTS = Manifest(
    branch="agents",
    kinds=(
        Kind(AgentPrompt, Direction.REQUIRES),
        Kind(AgentThought, Direction.PRODUCES),
        Kind(AgentResponse, Direction.PRODUCES),
        Kind(AgentChunk, Direction.PRODUCES, short_lived=True),
        Kind(AgentStreamCompleted, Direction.PRODUCES, short_lived=True),
        Kind(AgentToolCall, Direction.PRODUCES, answers=(AgentToolResult, AgentToolFault)),
        Kind(AgentToolResult, Direction.ACCEPTS),
        Kind(AgentToolFault, Direction.ACCEPTS),
        Kind(EntityCast, Direction.INTERNAL),
        Kind(CrystalCalled, Direction.INTERNAL),
        Kind(AgentUtterance, Direction.INTERNAL),
        Kind(CrystalFailed, Direction.INTERNAL),
        Kind(AgentsSettled, Direction.INTERNAL),
    ),
)
