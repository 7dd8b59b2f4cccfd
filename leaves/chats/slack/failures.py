"""What goes wrong at Slack, as the leaf tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from branches.chat.leaf import DeliveryFailed
from branches.chat.live import Away

if TYPE_CHECKING:
    from slack_sdk.errors import SlackApiError

_LONGEST_LIMIT_S = 300.0
_LIMITED = ("ratelimited", "rate_limited")
_TOKEN = ("invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive")
_SETUP = (*_TOKEN, "not_allowed_token_type", "missing_scope", "no_permission")
_TROUBLE = ("internal_error", "fatal_error", "service_unavailable", "request_timeout", "rollup_error")
_HINTS = {
    "not_in_channel": "invite the bot there",
    "channel_not_found": "the channel is gone, or the bot is not in it",
    "is_archived": "the channel is archived",
    "restricted_action": "the workspace does not let the bot write there",
}


class Refused(DeliveryFailed):
    """Slack refuses a request for good; `code` is what it calls that."""

    def __init__(self, method: str, code: str) -> None:
        hint = f" ({_HINTS[code]})" if code in _HINTS else ""
        super().__init__(f"Slack refuses {method}: {code}{hint}")
        self.method, self.code = method, code


class SetupError(Exception):
    """The app at Slack, or one of its tokens, is not as this leaf needs it; the message says what to change."""

    def __init__(self, method: str, code: str, what_to_do: str) -> None:
        super().__init__(f"Slack refuses {method}: {code}; {what_to_do}")
        self.method, self.code = method, code


def limited(error: SlackApiError) -> float | None:
    """The seconds that Slack wants us to wait; None if it is another error."""
    response = _response(error)
    if response is None or (response.status_code != 429 and response.get("error") not in _LIMITED):
        return None
    told = str(response.headers.get("Retry-After", ""))
    return min(float(told) if told.isascii() and told.isdigit() else 30.0, _LONGEST_LIMIT_S)


def failure(method: str, error: SlackApiError) -> Exception:
    """What is told of it: a `Refused`, a `SetupError`, or an `Away` where it may go another time."""
    response = _response(error)
    if response is None:
        return Away(f"Slack answers {method} with something that is none")
    code = str(response.get("error") or f"status {response.status_code}")
    if response.status_code >= 500 or code in _TROUBLE or code.startswith("status "):
        return Away(f"Slack has trouble with {method}: {code}")
    if code == "missing_scope":
        return SetupError(method, code, missing(str(response.get("needed") or "which it needs")))
    if code in _SETUP:
        variable = "SLACK_APP_TOKEN" if method == "apps.connections.open" else "SLACK_BOT_TOKEN"
        kind = "app-level token (`xapp-…`, with `connections:write`)" if "APP" in variable else "bot token (`xoxb-…`)"
        return SetupError(method, code, f"set {variable} to the {kind} of an installed app")
    return Refused(method, code)


def missing(scopes: str) -> str:
    """What to do about scopes that the app lacks."""
    return f"add the scope {scopes} to the app and install it again"


def _response(error: SlackApiError) -> Any:
    """What Slack said; None where it was no JSON."""
    from slack_sdk.web.async_slack_response import AsyncSlackResponse

    response: Any = error.response
    is_json = isinstance(response, AsyncSlackResponse) and isinstance(cast("Any", response).data, dict)
    return response if is_json else None
