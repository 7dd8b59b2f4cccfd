"""Images that come with a message are seen."""

from __future__ import annotations

import struct
import zlib

import pytest

from branches.agents.crystal import Message
from branches.attachment import Attachment
from tests.leaves.crystals.contract.subject import BRIEF, READ, Subject, then, user


def square(red: int, green: int, blue: int) -> bytes:
    """A PNG of one colour, 64 by 64."""
    rows = (b"\0" + bytes((red, green, blue)) * 64) * 64
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(data)) + type + data + struct.pack(">I", zlib.crc32(type + data)) for type, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


RED = Attachment("first.png", "image/png", square(255, 0, 0))
BLUE = Attachment("second.png", "image/png", square(0, 0, 255))


def look(*images: Attachment) -> Message:
    named = "\n".join(f"[attached: {image.name}]" for image in images)
    return Message("user", f"Which colour has each image? Say the names of the colours.\n{named}", images=images)


@pytest.fixture(autouse=True)
def sees(subject: Subject) -> None:
    if subject.live and not subject.crystal.sight.takes:
        pytest.skip("this model takes no images")


async def test_an_image_is_seen(subject: Subject, streamed: bool):
    said = ((await subject.ask(BRIEF, look(RED), streamed=streamed)).content or "").lower()
    assert ("red" in said, "blue" in said) == (True, False)


async def test_two_images_are_seen(subject: Subject, streamed: bool):
    said = ((await subject.ask(BRIEF, look(RED, BLUE), streamed=streamed)).content or "").lower()
    assert ("red" in said, "blue" in said) == (True, True)


async def test_an_image_behind_results_of_calls(subject: Subject, streamed: bool):
    asked = (BRIEF, user("Read a.txt with the tool."))
    response = await subject.ask(*asked, tools=(READ,), tool_choice="required", streamed=streamed)
    messages = (*then(asked, response), look(BLUE))
    said = (await subject.ask(*messages, tools=(READ,), tool_choice="none", streamed=streamed)).content or ""
    assert "blue" in said.lower()
