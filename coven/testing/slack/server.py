"""The interface that apps use, on a loopback port, and what a test does to it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiohttp import web

from coven.testing.slack.limits import Limits
from coven.testing.slack.requests import Refused, blocks_of, metadata_of, page_of, read, token_of
from coven.testing.slack.socket import SocketMode
from coven.testing.slack.uploads import Uploads
from coven.testing.slack.world import Channel, Message, World

SCOPES = (
    "app_mentions:read",
    "channels:history",
    "channels:read",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "groups:read",
    "im:history",
    "im:read",
    "mpim:history",
    "mpim:read",
    "users:read",
)
_LONGEST, _LONGEST_EDIT = 40_000, 4_000
_NEEDED = {
    "chat.postMessage": "chat:write",
    "chat.update": "chat:write",
    "chat.delete": "chat:write",
    "chat.postEphemeral": "chat:write",
    "users.info": "users:read",
    "files.getUploadURLExternal": "files:write",
    "files.completeUploadExternal": "files:write",
    "files.info": "files:read",
}
_KINDS = {"public_channel": "channels", "private_channel": "groups", "im": "im", "mpim": "mpim"}
Method = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class SlackServer(SocketMode):
    """A Slack with one workspace and one app. `async with SlackServer() as slack:` and give the app `slack.api`.

    What people do: `say`, `command`, `press`. What there is: `world`. What goes wrong: `drop`, `ask_to_reconnect`,
    `redeliver`, `give_up`, `again`, `limits`, `scopes`, `refuse`, `break_connections`, `hold`.
    """

    def __init__(self, bot_token: str = "xoxb-loopback", app_token: str = "xapp-loopback") -> None:
        super().__init__()
        self.bot_token, self.app_token = bot_token, app_token
        self.world, self.limits = World(), Limits()
        self.scopes = set(SCOPES)
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.whispers: list[dict[str, Any]] = []
        self.mode = True
        """Whether the app has Socket Mode switched on."""
        self._newest: dict[str, Any] = {}
        self._refused: dict[str, str] = {}
        self.uploads = Uploads()
        self._methods: dict[str, Method] = {
            "auth.test": self._test,
            "apps.connections.open": self._open,
            "chat.postMessage": self._post,
            "chat.update": self._update,
            "chat.delete": self._delete,
            "chat.postEphemeral": self._whisper,
            "conversations.history": self._history,
            "conversations.replies": self._history,
            "users.conversations": self._conversations,
            "users.info": self._user,
            "files.getUploadURLExternal": self.uploads.begin,
            "files.completeUploadExternal": self.uploads.complete,
            "files.info": self.uploads.about,
        }

    @property
    def api(self) -> str:
        """The address to give to an app."""
        return f"{self.base}/api/"

    async def __aenter__(self) -> SlackServer:
        app = web.Application(client_max_size=2**25)
        app.router.add_get("/link/", self.handle)
        app.router.add_post("/upload/{file}", self.uploads.take)
        app.router.add_get("/files/{channel}/{ts}/{number}", self._file)
        app.router.add_route("*", "/api/{method}", self._serve)
        await self.listen(app)
        self.uploads.base = self.base
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.drop()
        await self.close()

    async def say(
        self,
        text: str,
        channel: Channel | None = None,
        *,
        author: str = "Ada",
        mention: bool = True,
        thread: Message | None = None,
        files: Sequence[tuple[str, bytes, str]] = (),
        bot: bool = False,
        broadcast: bool = False,
    ) -> Message:
        """A person says something; `mention` puts the bot's name before it, a `broadcast` reply is in its channel."""
        channel = channel or self.world.general
        named = mention and not channel.direct
        message = self.world.add(
            channel,
            self.world.person(author, bot=bot),
            f"<@{self.world.bot.id}> {text}" if named else text,
            thread=thread.ts if thread is not None else None,
            broadcast=broadcast,
            files=list(files),
        )
        shown = {**self.world.payload(message, self.base), "channel": channel.id}
        await self.event({**shown, "channel_type": "im" if channel.direct else "channel"})
        if named:  # an app that may see both gets both
            await self.event({**shown, "type": "app_mention"})
        return message

    async def event(self, event: dict[str, Any]) -> str:
        """Something happens that the app hears of; gives the envelope's id."""
        about = {"type": "event_callback", "team_id": self.world.team, "event_id": self.world.new_id("Ev")}
        self._newest = {**about, "event": event}
        return await self.send("events_api", self._newest)

    async def again(self) -> str:
        """Send the newest event a second time, in another envelope."""
        return await self.send("events_api", self._newest)

    async def command(self, name: str, text: str = "", channel: Channel | None = None, *, author: str = "Ada") -> str:
        """A person uses a slash command; gives the envelope's id, under which `acknowledged` has what it says."""
        payload = self.world.command_payload(name, text, channel or self.world.general, self.world.person(author))
        payload["response_url"] = f"{self.base}/commands/"
        return await self.send("slash_commands", payload, answerable=True)

    async def press(self, message: Message, number: int, *, author: str = "Ada", **changed: Any) -> str:
        """A person presses the numbered button of a message; gives the envelope's id."""
        payload = self.world.press_payload(message, number, self.world.person(author), self.base)
        payload["actions"][0] |= changed
        return await self.send("interactive", payload)

    def refuse(self, method: str, error: str | None) -> None:
        """From now on the app gets this error for a method; with None it gets none any more."""
        if error is None:
            self._refused.pop(method, None)
        else:
            self._refused[method] = error

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        method, given = request.match_info["method"], await read(request)
        self.requests.append((method, given))
        wait = self.limits.count(method)
        if wait is not None:
            await self.note()
            return _json({"ok": False, "error": "ratelimited"}, 429, {"Retry-After": str(wait)})
        try:
            self._allow(method, token_of(request, given))
            if method not in self._methods:
                raise Refused("unknown_method")
            body = {"ok": True, **await self._methods[method](given)}
        except Refused as refused:
            body = {"ok": False, "error": str(refused)}
            if refused.needed is not None:
                body |= {"needed": refused.needed, "provided": ",".join(sorted(self.scopes))}
        await self.answering(method, request)
        return _json(body, headers={"x-oauth-scopes": ",".join(sorted(self.scopes))})

    def _allow(self, method: str, token: str) -> None:
        """Whether the token is the right one for a method."""
        wanted, other = self.bot_token, self.app_token
        if method == "apps.connections.open":
            wanted, other = other, wanted
        if token != wanted:
            raise Refused("not_allowed_token_type" if token == other else "invalid_auth")
        if method in self._refused:
            raise Refused(self._refused[method])
        if method in _NEEDED:
            self._need(_NEEDED[method])

    def _need(self, scope: str) -> None:
        if scope not in self.scopes:
            raise Refused("missing_scope", needed=scope)

    async def _test(self, _: dict[str, Any]) -> dict[str, Any]:
        bot = self.world.bot
        return {"user_id": bot.id, "bot_id": bot.bot, "user": bot.name.lower(), "team_id": self.world.team}

    async def _open(self, _: dict[str, Any]) -> dict[str, Any]:
        if not self.mode:
            raise Refused("socket_mode_not_enabled")
        return {"url": f"{self.base.replace('http', 'ws', 1)}/link/?ticket={self.ticket()}"}

    async def _post(self, given: dict[str, Any]) -> dict[str, Any]:
        channel = self._channel(given)
        if not channel.member:
            raise Refused("not_in_channel")
        thread = given.get("thread_ts")
        if thread is not None and (channel.id, thread) not in self.world.messages:
            raise Refused("thread_not_found")
        blocks, metadata = blocks_of(given), metadata_of(given)
        text = str(given.get("text") or "")
        if not text.strip() and not blocks:
            raise Refused("no_text")
        if len(text) > _LONGEST:
            raise Refused("msg_too_long")
        more = {"thread": thread, "blocks": blocks, "metadata": metadata, "files": self.uploads.linked(text)}
        message = self.world.add(channel, self.world.bot, text, **more)
        shown = {**self.world.payload(message, self.base), "channel": channel.id}
        await self.event(shown)  # an app hears what it says itself
        return {"channel": channel.id, "ts": message.ts, "message": self.world.payload(message, self.base)}

    async def _update(self, given: dict[str, Any]) -> dict[str, Any]:
        message = self._own(given, "cant_update_message")
        text = str(given.get("text") or "")
        blocks, metadata = blocks_of(given), metadata_of(given)
        if not text.strip() and not blocks:
            raise Refused("no_text")
        if len(text) > _LONGEST_EDIT:
            raise Refused("msg_too_long")
        message.history.append(message.text)
        message.text, message.blocks = text, blocks
        message.metadata = metadata or message.metadata
        return {"channel": message.channel.id, "ts": message.ts, "text": text}

    async def _delete(self, given: dict[str, Any]) -> dict[str, Any]:
        message = self._own(given, "cant_delete_message")
        del self.world.messages[message.channel.id, message.ts]
        return {"channel": message.channel.id, "ts": message.ts}

    async def _whisper(self, given: dict[str, Any]) -> dict[str, Any]:
        self._channel(given)
        self.whispers.append(given)
        return {"message_ts": self.world.new_ts()}

    async def _history(self, given: dict[str, Any]) -> dict[str, Any]:
        """The newest first in a channel, the oldest first in a thread; pages of at most `limit`."""
        channel, thread = self._channel(given), given.get("ts")
        self._need(f"{_KINDS[channel.kind]}:history")
        if not channel.member:
            raise Refused("not_in_channel")
        if thread is not None and (channel.id, thread) not in self.world.messages:
            raise Refused("thread_not_found")
        oldest, latest = float(given.get("oldest") or 0), float(given.get("latest") or "inf")
        found = sorted(
            (m for m in self.world.in_place(channel, thread) if oldest < float(m.ts) < latest or m.ts == thread),
            key=lambda message: message.ts,
            reverse=thread is None,
        )
        metadata = str(given.get("include_all_metadata", "")).lower() in ("1", "true")
        page, more = page_of(found, given)
        return {"messages": [self.world.told(message, self.base, metadata=metadata) for message in page], **more}

    async def _conversations(self, given: dict[str, Any]) -> dict[str, Any]:
        """The conversations that the bot is in. One scope too few, and none of the kinds is told."""
        kinds = str(given.get("types") or "public_channel").split(",")
        for kind in kinds:
            if kind not in _KINDS:
                raise Refused("invalid_types")
            self._need(f"{_KINDS[kind]}:read")
        page, more = page_of([c for c in self.world.channels.values() if c.member and c.kind in kinds], given)
        return {"channels": [{"id": channel.id, "name": channel.name} for channel in page], **more}

    async def _user(self, given: dict[str, Any]) -> dict[str, Any]:
        everybody = (self.world.bot, *self.world.people.values())
        found = next((person for person in everybody if person.id == given.get("user")), None)
        if found is None:
            raise Refused("user_not_found")
        return {"user": found.payload()}

    async def _file(self, request: web.Request) -> web.StreamResponse:
        if token_of(request, {}) != self.bot_token or "files:read" not in self.scopes:
            return web.Response(text="<html>Sign in</html>", content_type="text/html")
        message = self.world.messages[request.match_info["channel"], request.match_info["ts"]]
        _, body, type = message.files[int(request.match_info["number"])]
        return web.Response(body=body, headers={"Content-Type": type})

    def _channel(self, given: dict[str, Any]) -> Channel:
        channel = self.world.channels.get(str(given.get("channel")))
        if channel is None:
            raise Refused("channel_not_found")
        return channel

    def _own(self, given: dict[str, Any], refusal: str) -> Message:
        message = self.world.messages.get((self._channel(given).id, str(given.get("ts"))))
        if message is None:
            raise Refused("message_not_found")
        if message.author != self.world.bot:
            raise Refused(refusal)
        return message


def _json(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(text=json.dumps(body), status=status, content_type="application/json", headers=headers)
