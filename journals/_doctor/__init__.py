"""What is right and wrong with a coven's server, folder and surroundings, each with its cure."""

from journals._doctor._examine import examine
from journals._doctor._finding import Finding, Level

__all__ = ["Finding", "Level", "examine"]
