"""Folding: a shorter view of a long thread. Nothing is lost by it; the loom keeps every turn (LOOM-5).

Everything here is a pure function of what is shown now. The messages of a view are: the system prompts (LOOM-6), the
intents of the folded turns, one message that stands for those turns, and the newest turns whole, each behind its own
intents.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from branches.agents import folding_text
from branches.agents.crystal import Message

TRIGGER_SHARE: Final = 0.8
"""How much of what a crystal takes may be used before the view is folded."""
INTENT_CHARS: Final = 16_000
"""How many characters of the intents of folded turns stay, beyond the newest one, which always does."""
SUMMARY_CHARS: Final = 24_000
"""The greatest length of what stands for folded turns, in characters."""
IMAGE_TOKENS: Final = 1_600
"""About what an image comes to: providers make large ones smaller until they are no more."""
CHARS_A_TOKEN: Final = 4
"""How many characters are estimated to be a token."""
_MESSAGE_TOKENS = 4


class Folding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """When and how the messages of early turns are folded; whichever trigger comes first counts (D-007).

    `window` keeps the newest turns and names those before them; `summary` has a crystal summarise them; `selective`
    keeps what the entity said and drops what its gates gave.
    """

    strategy: Annotated[
        Literal["window", "summary", "selective"], Meta(description="what stands in the place of folded turns")
    ] = "window"
    keep_turns: Annotated[
        Annotated[int, Meta(ge=1)], Meta(description="how many of the newest turns are always shown whole")
    ] = 8
    trigger_after_turns: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="fold when more turns than this are shown")
    ] = None
    trigger_at_tokens: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="fold when a request comes to more tokens; default: 80 % of what the crystal takes"),
    ] = None


class TurnMessages(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of one turn. `number` counts the turns of the thread from 1, through all its episodes.

    `intents` are what the entity was asked just before it, where the turn begins an episode. `messages` are its
    utterance, the answer to each of its calls, and the nudge around it, if there was one. They are never taken apart.
    """

    number: int
    messages: tuple[Message, ...]
    intents: tuple[Message, ...] = ()


class Folded(msgspec.Struct, frozen=True, kw_only=True):
    """What stands for the turns up to `through`: their newest intents, and one text."""

    through: int
    summary: str
    intents: tuple[Message, ...] = ()


class Fold(msgspec.Struct, frozen=True, kw_only=True):
    """A fold that is due: the newest `kept` turns stay, all before them become `folded`.

    For the strategy `summary`, `request` is what to ask a crystal, without gates; `summarised` takes its answer. If
    it gives none, `folded` stands as it is.
    """

    kept: int
    folded: Folded
    request: tuple[Message, ...] = ()

    def summarised(self, text: str) -> Folded:
        """The folded turns, told by a crystal."""
        heading, _, _ = self.folded.summary.partition("\n")
        told = folding_text.shortened(text.strip(), SUMMARY_CHARS)
        return msgspec.structs.replace(self.folded, summary=f"{heading}\n\n{told}" if told else self.folded.summary)


def fold(
    turns: Sequence[TurnMessages],
    options: Folding,
    *,
    used_tokens: int,
    context_limit: int | None = None,
    earlier: Folded | None = None,
) -> Fold | None:
    """The fold that is due before the next request, or None.

    `turns` are those that are shown whole now, each of them complete, oldest first; `earlier` stands for those before
    them. `used_tokens` is what the next request comes to, as usage or `estimate_tokens` tell; `context_limit` is what
    the crystal takes. At most `keep_turns` turns stay: fewer where that many would be as many as the trigger, so that
    a fold is not due again at once, or would take more than half of the tokens; at least the newest.
    """
    trigger = token_trigger(options, context_limit)
    kept = _kept(turns, options, used_tokens, trigger)
    if kept is None or kept >= len(turns):
        return None
    return fold_to(kept, turns, options, context_limit=context_limit, earlier=earlier)


def fold_to(
    kept: int,
    turns: Sequence[TurnMessages],
    options: Folding,
    *,
    context_limit: int | None = None,
    earlier: Folded | None = None,
) -> Fold:
    """The fold that keeps so many turns, of more."""
    trigger = token_trigger(options, context_limit)
    gone = turns[: len(turns) - kept]
    intents = (*(earlier.intents if earlier else ()), *(_unseen(intent) for turn in gone for intent in turn.intents))
    limit = SUMMARY_CHARS if trigger is None else min(SUMMARY_CHARS, trigger // 2)  # an eighth of the tokens
    before = earlier.summary if earlier else ""
    said = folding_text.reasoning(gone) if options.strategy == "selective" else ""
    folded = Folded(
        through=gone[-1].number,
        summary=folding_text.note(before, gone, said, limit),
        intents=_newest(intents, min(INTENT_CHARS, limit)),
    )
    request = folding_text.request(before, gone, trigger) if options.strategy == "summary" else ()
    return Fold(kept=kept, folded=folded, request=request)


def shown(
    system: Iterable[Message],
    folded: Folded | None,
    turns: Iterable[TurnMessages],
    pending: Iterable[Message] = (),
) -> list[Message]:
    """The messages of a view; `pending` are intents that no turn has followed yet."""
    messages = list(system)
    if folded is not None:
        messages += [*folded.intents, Message("user", folded.summary)]
    for turn in turns:
        messages += [*turn.intents, *turn.messages]
    return [*messages, *pending]


def token_trigger(options: Folding, context_limit: int | None) -> int | None:
    """Above how many tokens of a request the view is folded; None where nothing tells."""
    if options.trigger_at_tokens is not None:
        return options.trigger_at_tokens
    return None if context_limit is None else int(context_limit * TRIGGER_SHARE)


def estimate_tokens(messages: Iterable[Message]) -> int:
    """About how many tokens the messages come to: their characters by four, a few for each message, and images."""
    return sum(
        _MESSAGE_TOKENS + -(-_characters(message) // CHARS_A_TOKEN) + IMAGE_TOKENS * len(message.images)
        for message in messages
    )


def _characters(message: Message) -> int:
    calls = sum(len(call.gate) + len(call.arguments) for call in message.tool_calls)
    return len(message.content or "") + calls


def _unseen(intent: Message) -> Message:
    """The intent of a folded turn: its images are named, and shown no more."""
    if not intent.images:
        return intent
    names = ", ".join(image.name for image in intent.images)
    return msgspec.structs.replace(intent, content=f"{intent.content or ''}\n\n[no longer shown: {names}]", images=())


def _kept(turns: Sequence[TurnMessages], options: Folding, used_tokens: int, trigger: int | None) -> int | None:
    """How many turns stay, or None if no fold is due."""
    after = options.trigger_after_turns
    too_long = trigger is not None and used_tokens > trigger
    if not too_long and (after is None or len(turns) <= after):
        return None
    kept = options.keep_turns
    if after is not None and kept >= after:
        kept = max(1, after // 2)
    if too_long and trigger is not None:
        newest = (estimate_tokens((*turn.intents, *turn.messages)) for turn in reversed(turns[-kept:]))
        kept = max(1, sum(tokens <= trigger // 2 for tokens in accumulate(newest)))
    return kept


def _newest(intents: tuple[Message, ...], limit: int) -> tuple[Message, ...]:
    """As many of the newest intents as have at most `limit` characters together; the newest in any case."""
    lengths = accumulate(_characters(intent) for intent in reversed(intents))
    fitting = sum(length <= limit for length in lengths)
    return intents[-max(1, fitting) :]
