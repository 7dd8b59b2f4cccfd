"""How an episode ended, as protocols tell it."""

from __future__ import annotations

from typing import Any

import msgspec

from branches.agents.crystal import Finish
from branches.attachment import Attachment
from coven.conversation import Ended


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens read, tokens written, and those of the read ones that came from a cache."""

    prompt: int
    completion: int
    cached: int


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end of an episode.

    `answer` is what `done` was given, or the last text. `ending` is `terminated`, `truncated` (by `ward`), `failed` or
    `cancelled`; but for the first, `error` says why and there is no answer. `finish` says why the text ends that is the
    answer: `stop`, or that it was cut off, `length` at its limit of tokens and `other` by its provider. `turns` and
    `usage` are those of this episode, its children's not counted. `attachments` are the files that go with the answer,
    each with its bytes in base64; left out where there are none.
    """

    answer: Any
    ending: str
    ward: str | None
    error: str | None
    finish: Finish | None
    turns: int
    usage: Tokens
    session: str
    prompt: str
    entity: str
    attachments: tuple[Attachment, ...] = ()


def answer_of(ended: Ended) -> Answer:
    """The ending as it is told."""
    usage = ended.usage
    return Answer(
        answer=ended.answer,
        ending=ended.ending,
        ward=ended.ward,
        error=ended.error,
        finish=ended.finish,
        turns=ended.turns,
        usage=Tokens(prompt=usage.prompt, completion=usage.completion, cached=usage.cached),
        session=ended.session,
        prompt=ended.prompt,
        entity=ended.entity,
        attachments=ended.attachments,
    )
