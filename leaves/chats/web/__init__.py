"""A chat in the browser: a small page, and the socket that it talks through."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leaves.chats.web.leaf import WebChat
    from leaves.chats.web.options import WebOptions


def open_web(options: WebOptions, name: str) -> WebChat:
    """The chat of the page. Raises what `WebChat` raises, and `ModuleNotFoundError` where the extra is missing."""
    try:
        import websockets  # noqa: F401 # pyright: ignore[reportUnusedImport] - the server loads it by name

        from leaves.chats.web.leaf import WebChat
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in ("starlette", "uvicorn", "websockets"):
            raise
        raise ModuleNotFoundError(
            f"{package} is not installed, which the leaf web needs: pip install 'coven-bus[http]'", name=package
        ) from None
    return WebChat(options, name)
