"""What `coven.yaml` says about a Slack app. Reading this imports no SDK."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from branches.chat.windows import Window
from branches.secret import Secret

BOT_TOKEN = "SLACK_BOT_TOKEN"
APP_TOKEN = "SLACK_APP_TOKEN"


class SlackOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which messages the app takes, and how it answers.

    branches:
      chat: {leaf: slack, options: {listen: everything, channels: [C0123456789]}}
    """

    bot_token: Annotated[
        Secret | None, Meta(description="the bot's token, `xoxb-…`; default: `${SLACK_BOT_TOKEN}`")
    ] = None
    app_token: Annotated[
        Secret | None, Meta(description="the app-level token, `xapp-…`; default: `${SLACK_APP_TOKEN}`")
    ] = None
    listen: Annotated[
        Literal["mentions", "everything"],
        Meta(description="in channels: what mentions the bot, and threads that began so; or every message"),
    ] = "mentions"
    channels: Annotated[
        tuple[str, ...], Meta(description="ids of the channels that it takes messages from; all if none")
    ] = ()
    direct_messages: Annotated[bool, Meta(description="whether it takes direct messages")] = True
    threads: Annotated[
        bool, Meta(description="whether it answers a message in a channel in a thread, a conversation of its own")
    ] = False
    catch_up_s: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="what was said in so many seconds before it is connected is answered too; 0: nothing",
        ),
    ] = 3600.0
    name_authors: Annotated[bool, Meta(description="whether a prompt begins with its author's name")] = True
    attachment_chars: Annotated[
        int, Meta(ge=0, description="characters of a message's attached text files that the model gets")
    ] = 20_000
    stream: Annotated[bool, Meta(description="whether answers are shown while they are being written")] = True
    edit_every_s: Annotated[float, Meta(ge=1.0, description="seconds between two edits of an answer")] = 2.0
    window: Annotated[Window, Meta(description="when text that is being written goes into the next edit")] = Window(
        paragraph=True, sentence=True, max_chars=200, debounce_s=0.5
    )
    api: Annotated[str | None, Meta(description="another address of Slack's interface, such as a proxy's")] = None
