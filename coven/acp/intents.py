"""From the blocks of an editor's prompt to an intent."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, NamedTuple

from acp import RequestError
from acp.schema import (
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from branches.attachment import File


class Intent(NamedTuple):
    """What an editor asks for: a text, and the images in it."""

    text: str
    images: tuple[File, ...] = ()


def intent_of(blocks: Sequence[Any]) -> Intent:
    """The prompt. What it links to is named where it stands; text that it embeds stands behind it.

    Raises `RequestError` for sound and other bytes, and for a prompt that says nothing.
    """
    said: list[str] = []
    images: list[File] = []
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
            case ImageContentBlock():
                images.append(_image(block, len(images) + 1))
            case _:
                raise invalid(
                    f"this agent takes text, images and links to files, and no {getattr(block, 'type', 'such block')}"
                )
    intent = "".join((*said, *embedded))
    if not intent.strip() and images:
        intent = "Look at this."
    if not intent.strip():
        raise invalid("an intent is required: say what the entity is to do")
    try:
        intent.encode()
    except UnicodeEncodeError:
        raise invalid("the prompt is not valid Unicode: it holds half of a surrogate pair") from None
    return Intent(intent, tuple(images))


def _image(block: ImageContentBlock, number: int) -> File:
    try:
        body = base64.b64decode(block.data, validate=True)
    except ValueError:
        raise invalid(f"image {number} is not valid base64") from None
    name = (block.uri or "").rpartition("/")[2] or f"image-{number}.{block.mime_type.rpartition('/')[2]}"
    return File(name, block.mime_type, len(body), body)


def invalid(message: str) -> RequestError:
    """The error for a request that cannot be met as it stands."""
    return RequestError(-32602, message)
