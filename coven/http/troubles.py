"""What goes wrong with a request, as a status and a few words of JSON."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from branches.agents.forking import NoSuchTurn
from coven.conversation import InvalidCast
from coven.http.messages import Trouble
from coven.supervisor import ServiceFailed, TakenOver
from journals import IdConflict, InvalidEntry, InvalidName, JournalError, StoreUnavailable


class Refused(Exception):
    """A request that cannot be met."""

    def __init__(self, status: int, error: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.error, self.headers = status, error, headers


def unknown_session(session: str) -> Refused:
    """Nothing was ever said in this session."""
    return Refused(404, "unknown_session", f"there is no session {session!r}; POST a prompt to it to begin it")


def stopping() -> Refused:
    """The server is told to stop while somebody waits."""
    message = "this server stops; the episode goes on when it runs again: ask then, with the same Idempotency-Key"
    return Refused(503, "stopping", message, {"Retry-After": "5", "Connection": "close"})


def refusal(error: Exception) -> Refused | None:
    """The refusal that an error means; None for one that is not the asker's business."""
    match error:
        case Refused():
            return error
        case InvalidCast():
            return Refused(422, "intent_required", str(error))
        case IdConflict():
            message = "this Idempotency-Key was used in this session for another request; use a new one"
            return Refused(409, "key_used", message)
        case InvalidName():
            return Refused(400, "bad_session", str(error))
        case InvalidEntry():
            return Refused(422, "cannot_be_recorded", str(error))
        case NoSuchTurn():
            return Refused(404, "unknown_turn", str(error))
        case StoreUnavailable():
            message = f"the journals cannot be reached: {error}; ask again with the same Idempotency-Key"
            return Refused(503, "unavailable", message, {"Retry-After": "2"})
        case ServiceFailed() | TakenOver():
            return Refused(503, "stopping", f"{error}; ask the server that runs now, with the same Idempotency-Key")
        case JournalError():
            return Refused(500, "journal", str(error))
        case _:
            return None


def reply(refused: Refused) -> Response:
    """The refusal as a response."""
    trouble = Trouble(error=refused.error, message=str(refused))
    return json_response(trouble, refused.status, refused.headers)


def json_response(told: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Any of our structs as a response."""
    return Response(msgspec.json.encode(told), status, headers, media_type="application/json")
