"""Who may ask: whoever has the token; without one, programs of this machine and no web page."""

from __future__ import annotations

import hmac
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from coven.http.troubles import Refused, reply
from leaves.loopback import is_loopback, without_port

_OPEN: Final = "/health"


class Guard:
    """Lets requests with the token through, or where there is none those that name a loopback address as their host.

    The latter keeps pages out that make their own name point at this machine. `/health` is open to all.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app, self._token = app, None if token is None else token.encode()

    def __repr__(self) -> str:
        return f"<Guard {'without' if self._token is None else 'with'} a token>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand on."""
        if scope["type"] == "http" and scope["path"] != _OPEN:
            headers: dict[bytes, bytes] = dict(scope["headers"])
            refused = self._refusal(headers)
            if refused is not None:
                await reply(refused)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, headers: dict[bytes, bytes]) -> Refused | None:
        if self._token is None:
            host = headers.get(b"host", b"").decode("latin-1")
            if is_loopback(without_port(host)):
                return None
            return Refused(403, "wrong_host", "this server has no token, so it is asked as localhost or 127.0.0.1 only")
        kind, _, given = headers.get(b"authorization", b"").partition(b" ")
        if kind.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._token):
            return None
        message = "send the header `Authorization: Bearer …` with the token that the server has in COVEN_HTTP_TOKEN"
        return Refused(401, "wrong_token", message, {"WWW-Authenticate": "Bearer"})
