"""What a request must look like before it is looked at: the page is no place for other sites to reach this machine."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from leaves.loopback import is_loopback, without_port

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src blob:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def admits(headers: Mapping[str, str], *, open_to_all: bool) -> bool:
    """Whether a request comes from our own page, or from no page.

    Without a token (`open_to_all` is then false) it must also name this machine as its host, which keeps out pages
    that let their own name point here.
    """
    host = headers.get("host", "")
    if not open_to_all and not is_loopback(without_port(host)):
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:  # no browser sends such a one
        return False
