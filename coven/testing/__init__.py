"""Help for tests: ours and our users'."""

from coven.testing.clock import ManualClock
from coven.testing.scripted import ScriptedCrystal, ScriptExhausted, calls, finishes, says

__all__ = ["ManualClock", "ScriptExhausted", "ScriptedCrystal", "calls", "finishes", "says"]
