"""What `coven.yaml` says about a Discord bot. Reading this imports no SDK."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from branches.chat.windows import Window
from branches.secret import Secret

TOKEN = "DISCORD_TOKEN"


class DiscordOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which messages the bot takes, and how it answers.

    branches:
      chat: {leaf: discord, options: {listen: everything, channels: ["1180000000000000001"]}}
    """

    token: Annotated[Secret | None, Meta(description="the bot's token; default: `${DISCORD_TOKEN}`")] = None
    listen: Annotated[
        Literal["mentions", "everything"],
        Meta(description="in channels: what mentions the bot or replies to it, or every message"),
    ] = "mentions"
    channels: Annotated[
        tuple[str, ...],
        Meta(description="ids of the channels that it takes messages from, threads included; all if none"),
    ] = ()
    direct_messages: Annotated[bool, Meta(description="whether it takes direct messages")] = True
    commands: Annotated[bool, Meta(description="whether it offers slash commands")] = True
    catch_up_s: Annotated[
        float,
        Meta(
            ge=0, le=86_400, description="what was said in so many seconds before a start is answered too; 0: nothing"
        ),
    ] = 3600.0
    name_authors: Annotated[bool, Meta(description="whether a prompt begins with its author's name")] = True
    attachment_chars: Annotated[
        int, Meta(ge=0, description="characters of a message's attached text files that the model gets")
    ] = 20_000
    attach_over: Annotated[int, Meta(ge=1900, description="code blocks of more characters are sent as files")] = 4_000
    max_messages: Annotated[
        int, Meta(ge=1, le=20, description="an answer that takes more messages is sent as a file, with its beginning")
    ] = 6
    stream: Annotated[bool, Meta(description="whether answers are shown while they are being written")] = True
    edit_every_s: Annotated[float, Meta(ge=1.0, description="seconds between two edits of an answer")] = 1.5
    requests_per_s: Annotated[
        int, Meta(ge=1, description="requests that it makes in a second at most; Discord grants more to some bots")
    ] = 50
    window: Annotated[Window, Meta(description="when text that is being written goes into the next edit")] = Window(
        paragraph=True, sentence=True, max_chars=200, debounce_s=0.5
    )
    api: Annotated[
        str | None, Meta(description="another address of Discord's interface, for the whole process, such as a proxy's")
    ] = None
