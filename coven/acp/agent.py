"""The agent: each method of the protocol a few lines over a conversation."""

from __future__ import annotations

from contextlib import aclosing
from importlib.metadata import version
from typing import Any, cast

from acp import PROTOCOL_VERSION, Client, RequestError, update_user_message_text
from acp.schema import (
    AgentCapabilities,
    AuthenticateResponse,
    Implementation,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
)

from branches.agents.entries import AgentPrompt
from branches.agents.events import Events, FinalResponseEvent
from coven.acp.intents import Intent, intent_of, invalid
from coven.acp.updates import Updates
from coven.conversation import Conversation
from coven.entrance import Entrance
from journals import InvalidEntry, InvalidName, Record, random_id

ORIGIN = "acp"
_SENDER = "editor"
_FAILED = -32603
_UNKNOWN = -32002
_TOKENS = "max_tokens"


class _Asked:
    """A prompt of this connection whose answer is waited for."""

    def __init__(self) -> None:
        self.prompt: Record[Any] | None = None
        self.cancelled = False


class CovenAgent:
    """One connection's agent. Sessions are those of the journals; `session/load` goes on with any of them.

    Each prompt is an episode. A client that goes away cancels nothing; `session/cancel` does, for good.
    """

    def __init__(self, opened: Entrance) -> None:
        self._opened = opened
        self._client: Client | None = None
        self._sessions: set[str] = set()
        self._asked: dict[str, list[_Asked]] = {}

    def __repr__(self) -> str:
        return f"<CovenAgent with {len(self._sessions)} sessions over {self._opened!r}>"

    def on_connect(self, conn: Client) -> None:
        """The client is there."""
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        """Say what this agent can do."""
        return InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION) or PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(
                load_session=not self._opened.recipe.bare,
                prompt_capabilities=PromptCapabilities(image=True, audio=False, embedded_context=True),
            ),
            agent_info=Implementation(name="coven", title="Coven", version=version("coven-bus")),
            auth_methods=[],
        )

    async def authenticate(self, method_id: str, **_: Any) -> AuthenticateResponse:
        """Nothing is asked for: whoever started the process may use it."""
        return AuthenticateResponse()

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        """A new conversation. The workspace is the configuration's, whatever folder the client is in."""
        session = f"acp-{random_id()}"
        self._sessions.add(session)
        return NewSessionResponse(session_id=session)

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> LoadSessionResponse:
        """Go on with a conversation: what happened in it is told again. Raises `RequestError` for an unknown one."""
        try:
            last = await self._opened.journal.last(session=session_id)
        except InvalidName:
            last = None
        if last is None:
            raise RequestError(_UNKNOWN, f"there is no session {session_id!r}", {"uri": session_id})
        events, updates = Events(), Updates()
        async with aclosing(self._opened.journal.read(session=session_id, before=last.position + 1)) as records:
            async for record in records:
                if isinstance(record.entry, AgentPrompt):
                    updates = Updates()
                    await self._update(session_id, update_user_message_text(record.entry.text))
                for event in events.feed(record):
                    for update in updates.of(event):
                        await self._update(session_id, update)
        self._sessions.add(session_id)
        return LoadSessionResponse()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        """One episode, told as it happens. Raises `RequestError` for one that failed, with its error."""
        if session_id not in self._sessions:
            raise RequestError(_UNKNOWN, f"there is no session {session_id!r}", {"uri": session_id})
        intent, asked = intent_of(prompt), _Asked()
        self._asked.setdefault(session_id, []).append(asked)
        try:
            conversation = self._opened.conversation(session_id, _SENDER)
            return _stopped(await self._episode(conversation, intent, asked))
        except InvalidEntry as error:
            raise invalid(str(error)) from None
        finally:
            self._asked[session_id].remove(asked)

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Nobody wants the answers any more that this connection waits for."""
        for asked in self._asked.get(session_id, ()):
            asked.cancelled = True
            if asked.prompt is not None:
                await self._opened.conversation(session_id, _SENDER).cancel(asked.prompt)

    async def _episode(self, conversation: Conversation, intent: Intent, asked: _Asked) -> FinalResponseEvent:
        asked.prompt = await conversation.send(intent.text, files=intent.images)
        if asked.cancelled:  # it came while the prompt was written
            await conversation.cancel(asked.prompt)
        updates = Updates()
        final: FinalResponseEvent | None = None
        async with aclosing(conversation.watch(asked.prompt)) as events:
            async for event in events:
                for update in updates.of(event):
                    await self._update(conversation.session, update)
                if isinstance(event, FinalResponseEvent) and event.depth == 0:
                    final = event
        assert final is not None
        return final

    async def _update(self, session: str, update: Any) -> None:
        assert self._client is not None
        await cast("Any", self._client).session_update(session_id=session, update=update)


def _stopped(final: FinalResponseEvent) -> PromptResponse:
    """The reason as the protocol has it; what it has no word for stands beside it. Raises `RequestError`."""
    told = {"coven": {"ending": final.ending, "ward": final.ward, "finish": final.finish}}
    match final.ending:
        case "terminated":
            reason = "max_tokens" if final.finish == "length" else "end_turn"
            return PromptResponse(stop_reason=reason, field_meta=told)
        case "truncated":
            reason = "max_tokens" if final.ward == _TOKENS else "max_turn_requests"
            return PromptResponse(stop_reason=reason, field_meta=told)
        case "cancelled":
            return PromptResponse(stop_reason="cancelled", field_meta=told)
        case _:
            raise RequestError(_FAILED, final.text, told)
