"""What is made of files that come with a message, however hostile they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branches.attachment import (
    FILE_BYTES,
    FILES,
    IMAGE_TYPES,
    Attachment,
    File,
    image_type,
    is_worth_reading,
    plain_name,
    take,
)

BODIES = {
    "image/png": b"\x89PNG\r\n\x1a\n\x00",
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a\x00",
    "image/webp": b"RIFF\x00\x00\x00\x00WEBPVP8 ",
}
PNG = BODIES["image/png"]


@pytest.mark.parametrize("type", IMAGE_TYPES)
def test_an_image_keeps_its_bytes_and_is_named(type: str):
    told, images = take([File("a.bin", type, len(BODIES[type]), BODIES[type])])
    assert images == (Attachment("a.bin", type, BODIES[type]),)
    assert told == (f"[attached: a.bin, {type}, {len(BODIES[type])} bytes]",)
    assert images[0].is_image


def test_an_image_is_of_the_type_that_its_bytes_say():
    told, (image,) = take([File("a.png", "image/png", 4, BODIES["image/jpeg"])])
    assert image.media_type == "image/jpeg"
    assert told == ("[attached: a.png, image/jpeg, 4 bytes]",)


def test_without_a_type_the_name_says_what_it_is():
    _, (image,) = take([File("a.PNG", None, len(PNG), PNG)])
    assert image.media_type == "image/png"


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (File("a.png", "image/png", 0, b""), "it is empty"),
        (File("a.png", "image/png", 0), "it is empty"),
        (File("a.png", "image/png", 5, b"MZ..."), "it is not the image that it says it is"),
        (File("a.png", "image/png", 8, PNG[:-1]), "it is not the image that it says it is"),
        (File("a.png", "image/png", 10_000_000), "larger than 8 MiB"),
        (File("a.png", "image/png", 9, PNG + bytes(FILE_BYTES)), "larger than 8 MiB"),
        (File("a.png", "image/png", 100), "it could not be read"),
    ],
)
def test_what_cannot_be_shown_is_named_with_the_reason(file: File, reason: str):
    (told,), images = take([file])
    assert images == ()
    assert told == f"[attached: a.png, image/png, {file.size:,} bytes, not shown: {reason}]"


def test_a_message_has_so_many_images_and_no_more():
    told, images = take([File(f"{n}.png", "image/png", len(PNG), PNG) for n in range(FILES + 1)])
    assert len(images) == FILES
    assert told[-1].endswith("not shown: a message has at most 10]")


def test_a_message_has_so_many_bytes_and_no_more():
    large = PNG + bytes(FILE_BYTES - len(PNG))
    told, images = take([File(f"{n}.png", "image/png", len(large), large) for n in range(3)])
    assert len(images) == 2
    assert told[-1].endswith("not shown: a message has at most 16 MiB of them]")


def test_text_is_told_as_long_as_there_is_room():
    files = [File("a.txt", "text/plain", 30, b"x" * 30), File("b.md", None, 5, b"hello"), File("c.txt", None, 0, b"")]
    told, images = take(files, 32)
    assert told == (
        "[attached: a.txt, text/plain, 30 bytes]\n" + "x" * 30,
        "[attached: b.md, unknown type, 5 bytes, the first 2 of 5 characters]\nhe",
        "[attached: c.txt, unknown type, 0 bytes, empty]",
    )
    assert images == ()


def test_other_types_are_named_only():
    told, images = take([File("a.pdf", "application/pdf", 5, b"%PDF-")])
    assert (told, images) == (("[attached: a.pdf, application/pdf, 5 bytes]",), ())


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\ada\\chart.png", "chart.png"),
        ("a\x00b\nc.png", "a b c.png"),
        ("chart\u202egnp.exe", "chart gnp.exe"),
        ("x]\n[attached: y", "x attached: y"),
        ("..", "file"),
        ("", "file"),
        ("folder/", "file"),
        ("x" * 300 + ".png", "x" * 96 + ".png"),
        ("lone \ud800.png", "lone .png"),
    ],
)
def test_a_name_is_a_plain_file_name(name: str, plain: str):
    assert plain_name(name) == plain


@given(st.text(), st.one_of(st.none(), st.text()), st.binary(max_size=40), st.integers(0, 50))
def test_whatever_a_file_says_it_is_told_in_text_that_can_be_recorded(name, type, body, characters):
    (told,), images = take([File(name, type, len(body), body)], characters)
    told.encode()
    head = told.partition("\n")[0]
    assert head.startswith("[attached: ")
    assert head.endswith("]")
    assert "/" not in plain_name(name)
    assert all(image_type(image.body) == image.media_type for image in images)


def test_only_what_is_of_use_is_fetched():
    assert is_worth_reading(File("a.txt", None, 4_000), 100)
    assert not is_worth_reading(File("a.txt", None, 4_001), 100)
    assert not is_worth_reading(File("a.txt", None, 10), 0)
    assert is_worth_reading(File("a.png", "image/png", FILE_BYTES), 0)
    assert not is_worth_reading(File("a.png", "image/png", FILE_BYTES + 1), 0)
    assert not is_worth_reading(File("a.png", "image/png", 0), 0)
    assert not is_worth_reading(File("a.zip", "application/zip", 10), 100)
