"""The gate `fetch`: text from the web, from hosts that are allowed, and never from the network that we stand in."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from pydantic import Field

from branches.agents.gate import Gate, GateFailed, gate

if TYPE_CHECKING:
    import httpx2

_HOPS: Final = 5
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_PORTS: Final = {"http": 80, "https": 443}


def fetch(
    hosts: Iterable[str] = ("*",),
    *,
    private: bool = False,
    timeout_s: float = 20.0,
    max_bytes: int = 1_000_000,
    ephemeral: bool = False,
) -> Gate:
    """The gate `fetch(url)`: the text at an address.

    `hosts` are patterns of the hosts that may be asked (`*.example.org`), on every redirect too. An address of a
    private, loopback or link-local network is refused unless `private`; the address that was looked at is the one that
    is connected to. Of an answer at most `max_bytes` are given.
    """
    fetcher = _Fetcher(tuple(hosts), private, timeout_s, max_bytes)
    return gate(_fetch, name="fetch", idempotent=True, ephemeral=ephemeral, fetcher=fetcher)


async def _fetch(url: Annotated[str, Field(description="http or https")], fetcher: _Fetcher) -> dict[str, Any]:
    """Get the text at a web address."""
    import httpx2

    try:
        async with asyncio.timeout(fetcher.timeout_s):
            return await fetcher.get(url)
    except TimeoutError:
        raise GateFailed("timeout", f"{url} did not answer within {fetcher.timeout_s:g} s") from None
    except httpx2.HTTPError as error:
        raise GateFailed("failed", f"{url}: {error or type(error).__name__}") from None
    except (httpx2.InvalidURL, ValueError) as error:
        raise GateFailed("bad_arguments", f"{url!r} is not an address that can be asked: {error}") from None


class _Fetcher:
    def __init__(self, hosts: tuple[str, ...], private: bool, timeout_s: float, max_bytes: int) -> None:
        self._hosts, self._private, self.timeout_s, self._max_bytes = hosts, private, timeout_s, max_bytes

    async def get(self, url: str) -> dict[str, Any]:
        """The answer behind all redirects, each of which is looked at before it is followed."""
        import httpx2

        async with httpx2.AsyncClient(trust_env=False) as client:
            for _ in range(_HOPS + 1):
                parts, address = await self._admit(url)
                at, named = _at(parts, address)
                async with client.stream("GET", at, **named) as answer:
                    target = answer.headers.get("location")
                    if answer.status_code not in _REDIRECTS or target is None:
                        return {"url": url, "status": answer.status_code, **await self._text(answer)}
                    url = urljoin(url, target)
        raise GateFailed("failed", f"{url}: more than {_HOPS} redirects")

    async def _admit(self, url: str) -> tuple[SplitResult, str]:
        """The parts of an address that may be asked, and the network address to ask."""
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".").lower()
        if parts.scheme not in _PORTS or not host:
            raise GateFailed("bad_arguments", f"{url!r} is no http or https address")
        if not any(fnmatchcase(host, pattern) for pattern in self._hosts):
            raise GateFailed("denied", f"host {host!r} is not allowed; allowed are: {', '.join(self._hosts)}")
        try:
            found = await asyncio.get_running_loop().getaddrinfo(
                host, parts.port or _PORTS[parts.scheme], type=socket.SOCK_STREAM
            )
        except (OSError, UnicodeError) as error:
            raise GateFailed("failed", f"host {host!r} cannot be found: {error}") from None
        addresses = [str(each[4][0]) for each in found]
        inside = [address for address in addresses if not ipaddress.ip_address(address.partition("%")[0]).is_global]
        if inside and not self._private:
            raise GateFailed("denied", f"host {host!r} is in a private network ({inside[0]})")
        return parts, addresses[0]

    async def _text(self, answer: httpx2.Response) -> dict[str, Any]:
        body = bytearray()
        async for piece in answer.aiter_bytes():
            body += piece[: self._max_bytes - len(body)]
            if len(body) >= self._max_bytes:
                break
        text = _decoded(bytes(body), answer.charset_encoding)
        told = {"content_type": answer.headers.get("content-type", ""), "text": text}
        return told | ({"cut": True} if len(body) >= self._max_bytes else {})


def _decoded(body: bytes, charset: str | None) -> str:
    """The text, by the charset that the answer names; by UTF-8 where it names none, or one that nobody knows."""
    try:
        return body.decode(charset or "utf-8", "replace")
    except (LookupError, ValueError):  # there is no such codec, or it is one of Python's that is no charset
        return body.decode("utf-8", "replace")


def _at(parts: SplitResult, address: str) -> tuple[str, dict[str, Any]]:
    """The request that goes to the network address, and names the host as the answering side knows it."""
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    literal = f"[{address}]" if ":" in address else address
    url = urlunsplit((parts.scheme, f"{literal}{port}", parts.path or "/", parts.query, ""))
    named = f"[{host}]" if ":" in host else host
    headers = {"Host": f"{named}{port}", "Accept": "text/*, application/json"}
    return url, {"headers": headers, "extensions": {"sni_hostname": host}}
