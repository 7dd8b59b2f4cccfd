"""Exchanges with model providers, recorded once and answered from a file ever after."""

from coven.testing.recording.recorder import CassetteMiss, CassetteMissing, recorded, recording_wanted

__all__ = ["CassetteMiss", "CassetteMissing", "recorded", "recording_wanted"]
