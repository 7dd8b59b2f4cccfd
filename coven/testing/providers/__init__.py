"""A server on the loopback interface that speaks the wire formats of the model providers.

Point the real SDKs at it. It checks requests as strictly as the providers do, answers by a script, and sends streams
in awkward pieces.
"""

from coven.testing.providers.reply import Reply
from coven.testing.providers.server import ProviderServer, Received

__all__ = ["ProviderServer", "Received", "Reply"]
