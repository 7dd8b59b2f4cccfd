"""From the blocks of an editor's prompt to an intent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from acp import RequestError
from acp.schema import (
    EmbeddedResourceContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)


def intent_of(blocks: Sequence[Any]) -> str:
    """The text of the prompt. What it links to is named where it stands; text that it embeds stands behind it.

    Raises `RequestError` for images, sound and other bytes, and for a prompt that says nothing.
    """
    said: list[str] = []
    embedded: list[str] = []
    for block in blocks:
        match block:
            case TextContentBlock():
                said.append(block.text)
            case ResourceContentBlock():
                said.append(f"[{block.name}]({block.uri})")
            case EmbeddedResourceContentBlock(resource=TextResourceContents() as resource):
                said.append(f"<{resource.uri}>")
                embedded.append(f"\n\n<{resource.uri}>:\n{resource.text}")
            case _:
                raise invalid(
                    f"this agent takes text and links to files, and no {getattr(block, 'type', 'such block')}"
                )
    intent = "".join((*said, *embedded))
    if not intent.strip():
        raise invalid("an intent is required: say what the entity is to do")
    try:
        intent.encode()
    except UnicodeEncodeError:
        raise invalid("the prompt is not valid Unicode: it holds half of a surrogate pair") from None
    return intent


def invalid(message: str) -> RequestError:
    """The error for a request that cannot be met as it stands."""
    return RequestError(-32602, message)
