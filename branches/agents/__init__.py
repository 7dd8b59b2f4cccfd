"""The Agents branch: the crystal, the circle and the entity. The service that runs them is in `service`."""

from branches.agents.crystal import (
    Crystal,
    CrystalError,
    CrystalRequest,
    CrystalResponse,
    Message,
    ToolCall,
    ToolChoice,
    Usage,
)
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
from branches.agents.gates import GateDefinition
from branches.agents.manifest import AGENTS
from branches.agents.options import AgentsOptions

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
    "AgentsOptions",
    "Crystal",
    "CrystalError",
    "CrystalRequest",
    "CrystalResponse",
    "GateDefinition",
    "Message",
    "ToolCall",
    "ToolChoice",
    "Usage",
]
