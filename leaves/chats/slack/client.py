"""The bot: the requests that we make to Slack, through `slack-sdk`."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from slack_sdk.errors import SlackApiError, SlackRequestError
from slack_sdk.web.async_client import AsyncWebClient

from branches.attachment import Attachment, File, is_worth_reading
from branches.chat.live import Away, until_back
from leaves.chats.slack.failures import Refused, SetupError, failure, limited, missing
from leaves.chats.slack.incoming import Message, Place, SlackFile, messages
from leaves.chats.slack.mrkdwn import escape
from leaves.chats.slack.outgoing import Mark, Part, linked, mark_of
from leaves.chats.slack.recovery import Ours
from policies import Clock, sleep_until

TIMEOUT_S = 30.0
_PAGES, _PAGE = 10, 200
_NAMES = 10_000
_GONE = ("message_not_found", "cant_update_message", "cant_delete_message", "edit_window_closed")
_log = logging.getLogger("coven.chat")


class Bot:
    """The bot of one app in one workspace: `async with`, then `sign_in`.

    Requests that Slack limits wait as long as it says, those of the same kind in a row.
    """

    def __init__(self, bot_token: str, app_token: str, clock: Clock, *, api: str | None = None) -> None:
        self._tokens, self._clock, self._api = (bot_token, app_token), clock, api or AsyncWebClient.BASE_URL
        self._turns: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._names: OrderedDict[str, str] = OrderedDict()
        self._user = ""

    def __repr__(self) -> str:
        return f"<Bot {self._user or 'not signed in'}, {len(self._names)} people known>"

    async def __aenter__(self) -> Bot:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S))
        # No retries of the SDK's own: it would send a message again without looking whether it is there.
        # And no lines of its own in the log: at its most detailed they hold what is said, and where to connect.
        quiet = logging.getLogger("coven.chat.slack_sdk")
        quiet.setLevel(logging.WARNING)
        self._web: Any = AsyncWebClient(
            self._tokens[0], self._api, session=self._session, retry_handlers=[], logger=quiet
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._session.close()

    @property
    def user(self) -> str:
        """The bot's own id as a user."""
        return self._user

    async def sign_in(self) -> None:
        """Find out who we are. Raises `SetupError` for a token that is none or that may not write; waits while away."""
        while True:
            try:
                response = await self._ask("auth.test", "", self._web.auth_test)
                break
            except Away as error:
                await until_back(self._clock, error)
        self._user = str(response["user_id"])
        scopes = str(response.headers.get("x-oauth-scopes", "chat:write"))
        if "chat:write" not in {scope.strip() for scope in scopes.split(",")}:
            raise SetupError("auth.test", "missing_scope", missing("chat:write"))

    async def address(self) -> str:
        """Where Socket Mode is served, for one connection. Raises `SetupError`, `Away`."""
        token = self._tokens[1]
        try:
            response = await self._ask(
                "apps.connections.open", "", lambda: self._web.apps_connections_open(app_token=token)
            )
        except Refused as refused:
            what = "switch Socket Mode on for the app, and see that SLACK_APP_TOKEN belongs to it"
            raise SetupError(refused.method, refused.code, what) from refused
        return str(response["url"])

    async def send(self, place: Place, part: Part, mark: Mark) -> str:
        """Send a message; gives its id. Raises `Refused`, `SetupError`, and `Away` when it may have arrived.

        A file is uploaded where only we see it, and shown by the message. One that Slack does not take is named.
        """
        links = [await self._upload(file) for file in part.files]
        part = part._replace(text="\n".join([part.text, *links]).strip())
        response = await self._ask(
            "chat.postMessage",
            place.channel,
            lambda: self._web.chat_postMessage(
                channel=place.channel, thread_ts=place.thread, metadata=mark.payload(), **_content(part)
            ),
        )
        return str(response["ts"])

    async def edit(self, place: Place, ts: str, part: Part, mark: Mark | None = None) -> bool:
        """Replace a message of ours; False when it is there no more, or may not be edited. Raises as `send`."""
        marked = {"metadata": mark.payload()} if mark is not None else {}
        try:
            await self._ask(
                "chat.update",
                "",
                lambda: self._web.chat_update(channel=place.channel, ts=ts, parse="none", **marked, **_content(part)),
            )
        except Refused as refused:
            if refused.code in _GONE:
                return False
            raise
        return True

    async def delete(self, place: Place, ts: str) -> None:
        """Delete a message of ours; it may be gone already. Raises as `send`."""
        try:
            await self._ask("chat.delete", "", lambda: self._web.chat_delete(channel=place.channel, ts=ts))
        except Refused as refused:
            if refused.code not in _GONE:
                raise

    async def whisper(self, place: Place, user: str, text: str) -> None:
        """Tell one person something that nobody else sees. Raises as `send`."""
        await self._ask(
            "chat.postEphemeral",
            "",
            lambda: self._web.chat_postEphemeral(channel=place.channel, user=user, text=text, thread_ts=place.thread),
        )

    async def ours(self, place: Place, since: float) -> list[Ours]:
        """What we have sent there since this time and marked; none where we may not read. Raises `Away`.

        It looks through the 2,000 newest messages.
        """
        found: list[Ours] = []
        try:
            async with aclosing(self._pages(place, oldest=f"{since:.6f}", include_all_metadata=True)) as pages:
                async for page in pages:
                    marks = [(message, mark_of(message.get("metadata"))) for message in page]
                    found += [Ours(str(m["ts"]), mark) for m, mark in marks if mark and m.get("user") == self._user]
        except (Refused, SetupError) as error:
            _log.warning("what was sent before cannot be read, so it may come twice: %s", error)
            return []
        return found

    async def said(self, place: Place, since: float, until: float) -> list[Message]:
        """What stands there until then: of a thread what was said since, of a channel at least its newest messages.

        It looks through 2,000 messages. A thread that began earlier is found by its first message, which tells when
        somebody spoke there last. Raises as `send`.
        """
        found: list[Message] = []
        about = {"latest": f"{until:.6f}"} | ({"oldest": f"{since:.6f}"} if place.thread is not None else {})
        async with aclosing(self._pages(place, **about)) as pages:
            async for page in pages:
                found += messages(place.channel, page)
                if place.thread is None and any(float(message["ts"]) <= since for message in page):
                    break
        return found

    async def conversations(self, kind: str, most: int) -> list[str]:
        """The ids of the conversations of a kind that the bot is in, as Slack calls kinds. Raises as `send`."""
        found, cursor = list[str](), ""
        while len(found) < most:
            about = {"types": kind, "exclude_archived": True, "limit": _PAGE, "cursor": cursor or None}
            page = await self._ask("users.conversations", "", lambda a=about: self._web.users_conversations(**a))
            found += [str(channel["id"]) for channel in page["channels"] or ()]
            cursor = _next(page)
            if not cursor:
                break
        return found

    async def name_of(self, user: str) -> str:
        """What a person is called; the id where we may not know. Raises `Away`."""
        if user in self._names:
            return self._names[user]
        try:
            response = await self._ask("users.info", "", lambda: self._web.users_info(user=user))
        except (Refused, SetupError) as error:
            _log.info("the name of %s is not known: %s", user, error)
            return user
        person: Mapping[str, Any] = response["user"] or {}
        profile: Mapping[str, Any] = person.get("profile") or {}
        name = str(profile.get("display_name") or profile.get("real_name") or person.get("name") or user)
        self._names[user] = name
        if len(self._names) > _NAMES:
            self._names.popitem(last=False)
        return name

    async def file(self, file: SlackFile, attachment_chars: int) -> File:
        """An attached file, with what is in it where the model may read so many characters of such ones."""
        found = File(file.name or "file", file.mimetype, file.size)
        if not is_worth_reading(found, attachment_chars):
            return found
        body = await self._body_of(file)
        return found._replace(body=body) if body is not None else found._replace(problem="it could not be read")

    async def _body_of(self, file: SlackFile) -> bytes | None:
        """What is in it; None for one that Slack does not keep itself or does not give us."""
        url, own = file.url_private or "", urlsplit(self._api).hostname
        host = urlsplit(url).hostname or ""
        if not (host == own or host.endswith(".slack.com")):  # nobody else is shown the token
            return None
        headers = {"Authorization": f"Bearer {self._tokens[0]}"}
        try:
            async with self._session.get(url, headers=headers, allow_redirects=False) as response:
                page = response.content_type == "text/html" and file.mimetype != "text/html"  # to sign in at
                return await response.read() if response.status == 200 and not page else None
        except (aiohttp.ClientError, OSError):
            return None

    async def _upload(self, file: Attachment) -> str:
        """A file as it stands in the text of a message."""
        upload = [{"content": file.body, "filename": file.name, "title": file.name}]
        try:
            done = await self._ask("files.upload", "", lambda: self._web.files_upload_v2(file_uploads=upload))
            id: str = done["files"][0]["id"]
            found = await self._ask("files.info", "", lambda: self._web.files_info(file=id))
        except (Refused, SetupError) as error:
            _log.warning("the file %s cannot be sent: %s", file.name, error)
            return f"({escape(file.name)} could not be sent: {error.code})"
        return linked(file.name, str(found["file"]["permalink"]))

    async def _pages(self, place: Place, **about: Any) -> AsyncGenerator[list[dict[str, Any]], None]:
        """What stands in a place, page by page: in a channel the newest first, in a thread the oldest."""
        about |= {"channel": place.channel, "limit": _PAGE}
        if place.thread is not None:
            method, read, about = (
                "conversations.replies",
                self._web.conversations_replies,
                {**about, "ts": place.thread},
            )
        else:
            method, read = "conversations.history", self._web.conversations_history
        cursor = ""
        for _ in range(_PAGES):
            page = await self._ask(method, "", lambda c=cursor: read(**about, cursor=c or None))
            yield page["messages"] or []
            cursor = _next(page)
            if not cursor:
                return
        _log.warning("not all of %s is looked through: there are more than %d messages", place, _PAGES * _PAGE)

    async def _ask(self, method: str, channel: str, request: Callable[[], Awaitable[Any]]) -> Any:
        """Make a request, again and again while Slack says that it is too early. Raises as `send`."""
        async with self._turns[method, channel]:
            while True:
                try:
                    return await request()
                except SlackApiError as error:
                    wait = limited(error)
                    if wait is None:
                        raise failure(method, error) from error
                    _log.info("Slack limits %s; going on in %g s", method, wait)
                    await sleep_until(self._clock, self._clock.now() + wait)
                except (aiohttp.ClientError, OSError, SlackRequestError) as error:
                    raise Away(f"Slack cannot be reached for {method}: {error}") from error


def _content(part: Part) -> dict[str, Any]:
    return {"text": part.text, "blocks": list(part.blocks)} if part.blocks else {"text": part.text}


def _next(page: Any) -> str:
    """Where the next page of an answer begins; empty if there is none."""
    about: Mapping[str, Any] = page["response_metadata"] or {}
    return str(about.get("next_cursor") or "")
