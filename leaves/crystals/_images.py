"""Which images of a conversation a model is shown; of every other one it is told why not."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from branches.agents.crystal import Message
from branches.attachment import FILE_BYTES, IMAGE_TYPES, Attachment

REFUSED: Final = "the provider did not take it"
_MIB: Final = 1024 * 1024


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """What a model can be shown: whether images at all, of which types, and how many bytes of one and of a request."""

    takes: bool = True
    types: tuple[str, ...] = IMAGE_TYPES
    most_bytes: int = FILE_BYTES
    most_in_all: int = 16 * _MIB


def shown(messages: Sequence[Message], sight: Sight, *, refused: bool = False) -> Sequence[Message]:
    """The messages with the images that can be shown; where room is short, with the newest.

    Each of the others is named in its message, with the reason. `refused` leaves all of them out.
    """
    places = [place for place, message in enumerate(messages) if message.images]
    if not places:
        return messages
    made, room = list(messages), sight.most_in_all
    for place in reversed(places):
        message = made[place]
        kept: list[Attachment] = []
        told: list[str] = []
        for image in reversed(message.images):
            why = REFUSED if refused else _problem(image, sight, room)
            if why is None:
                room -= len(image.body)
                kept.append(image)
            else:
                told.append(f"[{image.name} is not shown: {why}]")
        if told:
            content = "\n\n".join([*([message.content] if message.content else []), *reversed(told)])
            made[place] = replace(message, content=content, images=tuple(reversed(kept)))
    return made


def has_images(messages: Sequence[Message]) -> bool:
    """Whether any image would be shown."""
    return any(message.images for message in messages)


def data_url(image: Attachment) -> str:
    """The image as a URL that holds it."""
    return f"data:{image.media_type};base64,{encoded(image)}"


def encoded(image: Attachment) -> str:
    """The bytes as text."""
    return base64.b64encode(image.body).decode()


def _problem(image: Attachment, sight: Sight, room: int) -> str | None:
    if not sight.takes:
        return "this model takes no images"
    if image.media_type not in sight.types:
        return f"this model takes no {image.media_type}"
    if len(image.body) > sight.most_bytes:
        return f"larger than the {sight.most_bytes / _MIB:.3g} MiB that this model takes"
    return "newer images take the room there is" if len(image.body) > room else None
