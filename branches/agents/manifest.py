"""The kinds of the Agents branch."""

from __future__ import annotations

from branches.agents.entries import (
    AgentCancel,
    AgentChunk,
    AgentFork,
    AgentPrompt,
    AgentResponse,
    AgentStreamCompleted,
    AgentThought,
    AgentToolCall,
    AgentToolFault,
    AgentToolResult,
    ApprovalAsked,
    ApprovalGiven,
)
from branches.agents.internal import (
    AgentsSettled,
    AgentUtterance,
    CodeReturned,
    ContextFolded,
    CrystalCalled,
    CrystalFailed,
    CrystalRetried,
    EntityCast,
    EntityForked,
    EntityReturned,
    EntitySummoned,
    GateCalled,
    GateReturned,
    SandboxKept,
    TurnRewarded,
)
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
        Kind(ApprovalAsked, Direction.PRODUCES, answers=(ApprovalGiven,), occasional=True),
        Kind(ApprovalGiven, Direction.ACCEPTS),
        Kind(AgentCancel, Direction.ACCEPTS),
        Kind(AgentFork, Direction.ACCEPTS),
        *(
            Kind(entry, Direction.INTERNAL)
            for entry in (
                EntityCast,
                EntityForked,
                EntitySummoned,
                EntityReturned,
                CrystalCalled,
                CrystalRetried,
                AgentUtterance,
                CrystalFailed,
                GateCalled,
                GateReturned,
                CodeReturned,
                SandboxKept,
                ContextFolded,
                TurnRewarded,
                AgentsSettled,
            )
        ),
    ),
)
