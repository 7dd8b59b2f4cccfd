"""An answer as Discord takes it: messages of at most 2,000 characters, and files for what is too long to read there."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from branches.attachment import Attachment
from branches.chat.forks import Wish
from branches.chat.live import CURSOR
from branches.chat.splitting import split

LIMIT = 2000
EMPTY = "*(an empty answer)*"
_FILES = 10
_BYTES = 9 * 1024 * 1024  # of the 10 MiB that Discord takes at once
_BUTTONS = 25
_PREFIX = "coven:"
_BLOCK = re.compile(r"^(?P<marks>`{3,})[ \t]*(?P<info>[^`\n]*)\n(?P<code>.*?)\n?^(?P=marks)`*[ \t]*$", re.M | re.S)
_MARKDOWN = re.compile(r"[\\`*_~|<>\[\]#:@]")
_ENDINGS = {
    "": "txt",
    "bash": "sh",
    "c++": "cpp",
    "csharp": "cs",
    "javascript": "js",
    "kotlin": "kt",
    "markdown": "md",
    "python": "py",
    "ruby": "rb",
    "rust": "rs",
    "shell": "sh",
    "text": "txt",
    "typescript": "ts",
}


class Attached(NamedTuple):
    """A file that goes with a message."""

    name: str
    body: bytes


class Button(NamedTuple):
    """A button under a message; `id` is what comes back when it is pressed."""

    id: str
    label: str


class Part(NamedTuple):
    """One message."""

    text: str
    files: tuple[Attached, ...] = ()
    buttons: tuple[Button, ...] = ()


def buttons(question: str, choices: Sequence[str]) -> tuple[Button, ...]:
    """The buttons for the answers of a question; none where they are more than Discord takes."""
    if len(choices) > _BUTTONS:
        return ()
    return tuple(Button(f"{_PREFIX}{number}:{question}"[:100], choice[:80]) for number, choice in enumerate(choices))


def pressed(id: str) -> tuple[str, int] | None:
    """The question and the number of the choice that a button stands for; None for one that is not ours."""
    number, colon, question = id.removeprefix(_PREFIX).partition(":")
    if not id.startswith(_PREFIX) or not colon or not (number.isascii() and number.isdigit()):
        return None
    return question, int(number)


def parts(text: str, *, attach_over: int, max_messages: int, attachments: Sequence[Attachment] = ()) -> list[Part]:
    """The messages of an answer, at least one. Long code, or all of a very long answer, are files of the last one.

    So are its attachments; those that one message does not hold go with others behind it.
    """
    files: list[Attached] = []
    given = [Attached(each.name, each.body) for each in attachments]

    def attach(block: re.Match[str]) -> str:
        if len(block[0]) <= attach_over or len(files) == _FILES - 1:
            return block[0]
        name = f"code-{len(files) + 1}.{_ending(block['info'])}"
        files.append(Attached(name, f"{block['code']}\n".encode()))
        return f"(attached: `{name}`)"

    messages = split(_BLOCK.sub(attach, text), LIMIT) or [_named(given) if given else EMPTY]
    if len(messages) > max_messages:
        beginning = split(text, LIMIT - 100)[0]
        whole = Attached("answer.md", text.encode())
        return _with_files([Part(f"{beginning}\n\n(the whole answer is attached: `answer.md`)")], [whole, *given])
    return _with_files([Part(message.strip()) for message in messages], [*files, *given])


def _with_files(bare: list[Part], files: Sequence[Attached]) -> list[Part]:
    """The messages with these files at the last one, and at as many more as it takes."""
    room = _BYTES
    for file in files:
        last = bare[-1]
        if last.files and (len(last.files) == _FILES or len(file.body) > room):
            bare.append(Part(_named([file])))
            room, last = _BYTES, bare[-1]
        bare[-1] = last._replace(files=(*last.files, file))
        room -= len(file.body)
    return bare


def _named(files: Sequence[Attached]) -> str:
    return f"(attached: {', '.join(f'`{file.name}`' for file in files[:_FILES])})"


def to_the_letter(text: str) -> str:
    """The text as it is, with nothing of it hidden or dressed up by Discord: so one sees what is approved."""
    return _MARKDOWN.sub(r"\\\g<0>", text)


def unfinished(text: str) -> list[str]:
    """The messages of an answer that is still being written."""
    return [message.strip() for message in split(f"{text.rstrip()} {CURSOR}", LIMIT)]


def is_unfinished(message: str) -> bool:
    """Whether a message that we find is one that was still being written."""
    return CURSOR in message[-20:]


def nonce(id: str, number: int) -> str:
    """The nonce of the numbered message of what has this id: Discord takes one nonce of a bot once."""
    return hashlib.blake2b(f"{id}:{number}".encode(), digest_size=12).hexdigest()


def _ending(info: str) -> str:
    language = info.strip().split(" ")[0].lower()
    ending = _ENDINGS.get(language, language)
    return ending if re.fullmatch(r"[a-z0-9]{1,8}", ending) else "txt"


def forked(name: str, wanted: Wish) -> str:
    """What everybody reads of a fork."""
    told = f"**{name}** goes on from {wanted.place}, in another conversation"
    return f"{told}: {wanted.text}" if wanted.text else f"{told}."
