"""Coven over HTTP: requests become intents, and what the journals tell becomes answers and events.

`docs/protocols.md` shows it. Nothing here is imported before a server is wanted.
"""
