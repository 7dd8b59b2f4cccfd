"""Discord: messages, replies, threads and direct messages of a bot, through `discord.py`."""
