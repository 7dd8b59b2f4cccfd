"""What happens while an entity works, for those who watch: the streaming events of the specification's section 7.2."""

from branches.agents.events._events import (
    AnyEvent,
    Event,
    FinalResponseEvent,
    PieceEvent,
    StepCompleteEvent,
    StepStartEvent,
    TextEvent,
    ThinkingEvent,
    ToolCallEvent,
    ToolResultEvent,
    UsageEvent,
)
from branches.agents.events._follow import Casts, follow, pieces
from branches.agents.events._projector import Events

__all__ = [
    "AnyEvent",
    "Casts",
    "Event",
    "Events",
    "FinalResponseEvent",
    "PieceEvent",
    "StepCompleteEvent",
    "StepStartEvent",
    "TextEvent",
    "ThinkingEvent",
    "ToolCallEvent",
    "ToolResultEvent",
    "UsageEvent",
    "follow",
    "pieces",
]
