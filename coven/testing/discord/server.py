"""The interface that bots use, on a loopback port, and what a test does to it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiohttp import web

from coven.testing.discord.gateway import Gateway, Session
from coven.testing.discord.limits import GLOBAL, Limits
from coven.testing.discord.requests import answer, read, refused
from coven.testing.discord.world import Channel, Kind, Message, Person, World

_LONGEST = 2000
_NONCE = 25
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class DiscordServer(Gateway):
    """A Discord with one server and one bot. `async with DiscordServer() as discord:` and give the bot `discord.api`.

    What people do: `say`, `command`, `press`. What there is: `world`. What goes wrong: `drop`, `forget`, `again`,
    `limits`, `forbid`, `break_connections`, `hold`.
    """

    def __init__(self, token: str = "loopback-token", *, heartbeat_ms: int = 40_000) -> None:
        super().__init__(token, heartbeat_ms)
        self.token, self.world, self.limits = token, World(), Limits()
        self.requests: list[tuple[str, str]] = []
        self._expired: set[int] = set()
        self.typing: list[int] = []
        self.commands: list[dict[str, Any]] = []
        self.responses: list[dict[str, Any]] = []
        self._pressed: dict[str, Message] = {}
        self._forbidden: set[str] = set()
        self._nonces: dict[tuple[int, str], Message] = {}

    @property
    def api(self) -> str:
        """The address to give to a bot."""
        return f"{self.base}/api/v10"

    async def __aenter__(self) -> DiscordServer:
        app = web.Application(client_max_size=2**25)
        app.router.add_get("/gateway/", self.handle)
        app.router.add_get("/attachments/{message}/{number}", self._attachment)
        channel, message = "/channels/{channel}", "/channels/{channel}/messages/{message}"
        routes: list[tuple[str, str, str, Handler]] = [
            ("GET", "/users/@me", "me", self._me),
            ("GET", "/oauth2/applications/@me", "me", self._application),
            ("GET", "/gateway/bot", "gateway", self._gateway),
            ("PUT", "/applications/{application}/commands", "commands", self._register),
            ("GET", channel, "channel", self._channel),
            ("GET", f"{channel}/messages", "history", self._history),
            ("POST", f"{channel}/messages", "send", self._send_message),
            ("PATCH", message, "edit", self._edit_message),
            ("DELETE", message, "delete", self._delete_message),
            ("POST", f"{channel}/typing", "typing", self._type),
            ("POST", "/interactions/{interaction}/{token}/callback", "respond", self._respond),
        ]
        for method, path, kind, handler in routes:
            app.router.add_route(method, f"/api/v10{path}", self._guarded(kind, handler))
        await self.listen(app)
        self.url = f"{self.base.replace('http', 'ws', 1)}/gateway/"
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.drop(1001)
        await self.close()

    async def say(
        self,
        text: str,
        channel: Channel | None = None,
        *,
        author: str = "Ada",
        mention: bool = True,
        reply_to: Message | None = None,
        files: Sequence[tuple[str, bytes, str]] = (),
        expired: bool = False,
        bot: bool = False,
    ) -> Message:
        """A person says something; `mention` puts the bot's name before it.

        The addresses of `expired` files answer no more, as those of Discord do after a day.
        """
        channel = channel or self.world.general
        named = mention and channel.kind is not Kind.DIRECT
        message = self.world.add(
            channel,
            self.world.person(author, bot=bot),
            f"<@{self.world.bot.id}> {text}" if named else text,
            mentions=(self.world.bot,) if named else (),
            reply_to=reply_to.id if reply_to is not None else None,
            files=list(files),
        )
        if expired:
            self._expired.add(message.id)
        await self.dispatch("MESSAGE_CREATE", self.world.message_payload(message, self.base))
        return message

    async def command(
        self, name: str, channel: Channel | None = None, *, author: str = "Ada", **options: str | int
    ) -> dict[str, Any]:
        """A person uses a slash command."""
        given = [
            {"name": key, "type": 4 if isinstance(value, int) else 3, "value": value} for key, value in options.items()
        ]
        data = {"id": "1", "name": name, "type": 1, "options": given}
        return await self._interact(2, data, channel or self.world.general, self.world.person(author))

    async def press(self, message: Message, custom_id: str, *, author: str = "Ada") -> dict[str, Any]:
        """A person presses a button of a message."""
        data = {"custom_id": custom_id, "component_type": 2}
        shown = self.world.message_payload(message, self.base)
        interaction = await self._interact(3, data, message.channel, self.world.person(author), message=shown)
        self._pressed[interaction["id"]] = message
        return interaction

    async def _interact(
        self, type: int, data: dict[str, Any], channel: Channel, person: Person, **more: Any
    ) -> dict[str, Any]:
        interaction = self.world.interaction_payload(type, data, channel, person) | more
        await self.dispatch("INTERACTION_CREATE", interaction)
        return interaction

    def ready(self, session: Session) -> list[tuple[str, Any]]:
        """See `Gateway.ready`."""
        guild = str(self.world.guild)
        begin = {
            "v": 10,
            "user": self.world.bot.payload(),
            "guilds": [{"id": guild, "unavailable": True}],
            "session_id": session.id,
            "resume_gateway_url": self.url,
            "application": {"id": str(self.world.bot.id), "flags": 0},
        }
        return [("READY", begin), ("GUILD_CREATE", self.world.guild_payload())]

    def _guarded(self, kind: str, handler: Handler) -> Handler:
        """The handler behind what holds for all of them."""

        async def handle(request: web.Request) -> web.StreamResponse:
            if kind != "respond" and request.headers.get("Authorization") != f"Bot {self.token}":
                return refused(401, 0, "401: Unauthorized")
            self.requests.append((kind, request.match_info.get("channel", "")))
            place = request.match_info.get("channel", "")
            if place and int(place) not in self.world.channels:
                return refused(404, 10003, "Unknown Channel")
            if kind in self._forbidden:
                return refused(403, 50001, "Missing Access")
            if kind != "respond" and (wait := self.limits.count(GLOBAL, "")[1]) is not None:
                body = {"message": "You are being rate limited.", "retry_after": round(wait, 3), "global": True}
                return answer(body, status=429, headers={"X-RateLimit-Global": "true", "Via": "1.1 loopback"})
            headers, wait = self.limits.count(kind, place)
            if wait is not None:
                body = {"message": "You are being rate limited.", "retry_after": round(wait, 3), "global": False}
                return answer(body, status=429, headers={**headers, "Via": "1.1 loopback"})
            response = await handler(request)
            response.headers.update(headers)
            await self.answering(kind, request)
            return response

        return handle

    async def _me(self, _: web.Request) -> web.Response:
        return answer(self.world.bot.payload())

    async def _application(self, _: web.Request) -> web.Response:
        about = {"id": str(self.world.bot.id), "name": "Coven", "description": "", "icon": None, "bot_public": False}
        owner = self.world.person("Owner").payload()
        return answer({**about, "bot_require_code_grant": False, "verify_key": "0", "owner": owner})

    async def _gateway(self, _: web.Request) -> web.Response:
        limit = {"total": 1000, "remaining": 999, "reset_after": 1, "max_concurrency": 1}
        return answer({"url": self.url, "shards": 1, "session_start_limit": limit})

    async def _register(self, request: web.Request) -> web.Response:
        self.commands = await request.json()
        known = {"application_id": str(self.world.bot.id), "version": "1"}
        return answer([{**c, **known, "id": str(n)} for n, c in enumerate(self.commands, 1)])

    async def _channel(self, request: web.Request) -> web.Response:
        return answer(self.world.channel_payload(self._room(request)))

    async def _history(self, request: web.Request) -> web.Response:
        room, after = self._room(request), int(request.query.get("after", 0))
        limit = int(request.query.get("limit", 50))
        found = [m for m in self.world.messages.values() if m.channel == room and m.id > after][:limit]
        return answer([self._payload(message) for message in reversed(found)])

    async def _send_message(self, request: web.Request) -> web.Response:
        body, files = await read(request)
        text, nonce = str(body.get("content") or "").strip(), body.get("nonce")
        if (not text and not files) or len(text) > _LONGEST or (nonce is not None and len(nonce) > _NONCE):
            return refused(400, 50035, "Invalid Form Body")
        room = self._room(request)
        if nonce is not None and body.get("enforce_nonce") and (room.id, nonce) in self._nonces:
            return answer(self._payload(self._nonces[room.id, nonce]))
        reference: dict[str, Any] = body.get("message_reference") or {}
        allowed: dict[str, Any] = body.get("allowed_mentions") or {}
        reply_to = int(reference["message_id"]) if reference else None
        if reply_to is not None and reply_to not in self.world.messages:
            if reference.get("fail_if_not_exists", True):
                return refused(400, 50035, "Unknown message")
            reply_to = None
        message = self.world.add(
            room,
            self.world.bot,
            text,
            reply_to=reply_to,
            nonce=nonce,
            files=files,
            components=body.get("components") or [],
            notifies=tuple(allowed.get("parse", ("users", "roles", "everyone"))),
        )
        if nonce is not None:
            self._nonces[room.id, nonce] = message
        payload = self._payload(message)
        await self.dispatch("MESSAGE_CREATE", payload)
        return answer(payload)

    def forbid(self, kind: str) -> None:
        """The bot may not do this any more: `history`, `send`, `edit`, `delete`, `typing`."""
        self._forbidden.add(kind)

    def forget_nonces(self) -> None:
        """As if some minutes had passed."""
        self._nonces.clear()

    async def _edit_message(self, request: web.Request) -> web.Response:
        body, files = await read(request)
        message = self.world.messages.get(int(request.match_info["message"]))
        if message is None:
            return refused(404, 10008, "Unknown Message")
        if message.author != self.world.bot:
            return refused(403, 50005, "Cannot edit a message authored by another user")
        text = str(body.get("content") or "").strip()
        if "content" in body:
            if not text or len(text) > _LONGEST:
                return refused(400, 50035, "Invalid Form Body")
            message.history.append(message.text)
            message.text = text
        message.edited_at = time.time()
        message.components = body.get("components", message.components)
        if "attachments" in body:
            message.files = files
        return answer(self._payload(message))

    async def _delete_message(self, request: web.Request) -> web.Response:
        if self.world.messages.pop(int(request.match_info["message"]), None) is None:
            return refused(404, 10008, "Unknown Message")
        return web.Response(status=204)

    async def _type(self, request: web.Request) -> web.Response:
        self.typing.append(self._room(request).id)
        return web.Response(status=204)

    async def _respond(self, request: web.Request) -> web.Response:
        body, _ = await read(request)
        self.responses.append(body)
        data: dict[str, Any] = body.get("data") or {}
        pressed = self._pressed.get(request.match_info["interaction"])
        if body["type"] == 7 and pressed is not None:
            pressed.history.append(pressed.text)
            pressed.text, pressed.components = str(data["content"]), data["components"]
        interaction = {"id": request.match_info["interaction"], "type": 2}
        return answer({"interaction": interaction})

    async def _attachment(self, request: web.Request) -> web.Response:
        message = self.world.messages[int(request.match_info["message"])]
        if message.id in self._expired:
            return web.Response(status=404)
        _, body, type = message.files[int(request.match_info["number"])]
        return web.Response(body=body, headers={"Content-Type": type})

    def _room(self, request: web.Request) -> Channel:
        return self.world.channels[int(request.match_info["channel"])]

    def _payload(self, message: Message) -> dict[str, Any]:
        return self.world.message_payload(message, self.base)
