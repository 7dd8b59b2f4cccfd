"""`coven cast`: one episode, from an intent on the command line to its answer and an exit code."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from branches.attachment import File
from coven.conversation import Conversation, Ended
from coven.entrance import Entrance, entrance
from coven.exits import AT_ONCE
from coven.recipe import CannotCast, Recipe
from coven.running import loop_factory
from coven.signals import StopSignals
from coven.terminal import tell
from journals import Record, random_id

ORIGIN = "cli"
_SENDER = "you"
_FAILED = 1

Follow = Callable[[Conversation, Record[Any]], Any]


class Answered(msgspec.Struct, frozen=True):
    """How the one episode ended, and the exit code that says so."""

    ended: Ended
    code: int


def ask(
    recipe: Recipe,
    intent: str,
    *,
    session: str | None = None,
    follow: Follow | None = None,
    files: Sequence[File] = (),
) -> Answered | None:
    """Cast on the intent and wait for the end; None if it was stopped before it began.

    `files` belong to the intent; `follow` is told of the episode while it runs. The first Ctrl-C cancels it, for good
    and in the journal. Raises what `entrance` and `Conversation.ask` raise.
    """
    if recipe.bare and session is not None:
        raise CannotCast("a session lasts only where something is kept: `coven init` writes a coven.yaml here")
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_ask(recipe, intent, session, follow, files))


async def _ask(
    recipe: Recipe, intent: str, shared: str | None, follow: Follow | None, files: Sequence[File]
) -> Answered | None:
    task, session = asyncio.current_task(), shared or f"cast-{random_id()}"
    assert task is not None
    with StopSignals(task) as signals:
        try:
            async with entrance(
                recipe, origin=ORIGIN, tell=tell, sessions={session}, shared=shared, watch=follow is not None
            ) as opened:
                return await _episode(opened, intent, session, follow, task, signals, files)
        except asyncio.CancelledError:
            if not signals.asked:
                raise
            return None


async def _episode(
    opened: Entrance,
    intent: str,
    session: str,
    follow: Follow | None,
    task: asyncio.Task[Any],
    signals: StopSignals,
    files: Sequence[File],
) -> Answered:
    entity = opened.conversation(session, _SENDER)
    prompt = await entity.send(intent, files=files)
    if follow is not None and opened.recipe.agents in opened.elsewhere:
        tell(f"{opened.recipe.agents} answers from another process ({opened.elsewhere[opened.recipe.agents]})")
    following = None if follow is None else asyncio.ensure_future(follow(entity, prompt))
    waiting = asyncio.ensure_future(entity.ended(prompt))
    try:
        ended = await asyncio.shield(waiting)
        if following is not None:
            await asyncio.wait([following])
    except asyncio.CancelledError:
        if not signals.asked:
            raise
        task.uncancel()
        await entity.cancel(prompt)
        ended = await waiting
        return Answered(ended, AT_ONCE if ended.ending == "cancelled" else _code(ended))
    finally:
        for each in (waiting, following):
            if each is not None:
                each.cancel()
                await asyncio.wait([each])
    return Answered(ended, _code(ended))


def _code(ended: Ended) -> int:
    return 0 if ended.ending == "terminated" else _FAILED


def read_intent(given: str) -> str:
    """The intent as it was given, or what standard input holds where it is `-`. Raises `CannotCast` for no text."""
    if given == "-":
        try:
            given = sys.stdin.buffer.read().decode()
        except UnicodeDecodeError as error:
            raise CannotCast(f"standard input is not UTF-8 text ({error.reason} at byte {error.start})") from None
    try:
        given.encode()
    except UnicodeEncodeError:
        raise CannotCast("the intent is not valid Unicode; give it as UTF-8") from None
    if not given.strip():
        raise CannotCast('an intent is required: say what is to be done, e.g. coven cast "what files are here?"')
    return given
