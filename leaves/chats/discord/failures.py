"""What goes wrong with `discord.py` and the network, as the leaf tells it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import aiohttp
import discord

from branches.chat.leaf import DeliveryFailed
from branches.chat.live import Away


@contextmanager
def failures() -> Generator[None]:
    """Errors in the block as ours. Raises `DeliveryFailed` for what can never succeed, `Away` where nobody knows."""
    try:
        yield
    except (discord.DiscordServerError, discord.RateLimited) as error:
        raise Away(str(error)) from error
    except discord.HTTPException as error:
        if error.status == 429:
            raise Away(str(error)) from error
        raise DeliveryFailed(f"Discord refuses it: {error}") from error
    except (aiohttp.ClientError, OSError) as error:
        raise Away(f"Discord cannot be reached: {error}") from error
