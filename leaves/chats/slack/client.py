"""The bot: the requests that we make to Slack, through `slack-sdk`."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from slack_sdk.errors import SlackApiError, SlackRequestError
from slack_sdk.web.async_client import AsyncWebClient

from branches.attachment import Attachment
from branches.chat.live import Away, until_back
from leaves.chats.slack.failures import Refused, SetupError, failure, limited, missing
from leaves.chats.slack.incoming import Place, SlackFile
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
        cursor: str | None = None
        for _ in range(_PAGES):
            try:
                page = await self._page(place, f"{since:.6f}", cursor)
            except (Refused, SetupError) as error:
                _log.warning("what was sent before cannot be read, so it may come twice: %s", error)
                return []
            for message in page["messages"] or ():
                mark = mark_of(message.get("metadata"))
                if mark is not None and message.get("user") == self._user:
                    found.append(Ours(str(message["ts"]), mark))
            about: Mapping[str, Any] = page["response_metadata"] or {}
            cursor = about.get("next_cursor")
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

    async def body_of(self, file: SlackFile) -> bytes | None:
        """What is in an attached file; None for one that Slack does not keep itself or does not give us."""
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

    async def _page(self, place: Place, oldest: str, cursor: str | None) -> Any:
        if place.thread is not None:
            thread = place.thread
            return await self._ask(
                "conversations.replies",
                "",
                lambda: self._web.conversations_replies(
                    channel=place.channel,
                    ts=thread,
                    oldest=oldest,
                    limit=_PAGE,
                    cursor=cursor,
                    include_all_metadata=True,
                ),
            )
        return await self._ask(
            "conversations.history",
            "",
            lambda: self._web.conversations_history(
                channel=place.channel, oldest=oldest, limit=_PAGE, cursor=cursor, include_all_metadata=True
            ),
        )

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
