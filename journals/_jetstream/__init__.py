"""Journals on NATS JetStream, over `nats-py`."""

from journals._jetstream import _nats as _nats  # before any other imports it
from journals._jetstream._settings import StreamSettings, check_settings, journal_settings
from journals._jetstream._store import JetStreamStore

__all__ = ["JetStreamStore", "StreamSettings", "check_settings", "journal_settings"]
