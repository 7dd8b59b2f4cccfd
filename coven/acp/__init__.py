"""Coven as an agent of the Agent Client Protocol, for editors: requests come and updates go over standard streams.

`docs/protocols.md` shows it. Nothing here is imported before it is wanted.
"""
