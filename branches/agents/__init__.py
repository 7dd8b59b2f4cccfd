"""The Agents branch: the crystal, the circle and the entity."""

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
from branches.agents.manifest import AGENTS

__all__ = [
    "AGENTS",
    "AgentChunk",
    "AgentPrompt",
    "AgentResponse",
    "AgentStreamCompleted",
    "AgentThought",
    "AgentToolCall",
    "AgentToolFault",
    "AgentToolResult",
]
