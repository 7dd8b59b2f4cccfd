"""`coven cast`."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer

from coven.cli._options import Agents, Crystal, MaybeFile, Medium, Nats


def cast(
    intent: Annotated[str, typer.Argument(help="What is to be done; `-` reads it from standard input.")],
    crystal: Crystal = None,
    medium: Medium = None,
    session: Annotated[
        str | None, typer.Option(help="Go on in this conversation; without it, each cast begins a new one.")
    ] = None,
    attach: Annotated[
        list[str] | None, typer.Option(help="A file that belongs to it: an image, or text. Once for each.")
    ] = None,
    agents: Agents = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    file: MaybeFile = None,
    nats: Nats = None,
) -> None:
    """Cast the cantrip of coven.yaml on one intent and print the answer.

    The answer goes to standard output, and on a terminal turns and gate calls to standard error while it works. Where
    the coven runs, its services answer; those that do not run are started for this one episode. Ctrl-C cancels it.

    Without a coven.yaml the answer comes from the first crystal whose key is set, else from rehearsal, with read-only
    gates over the current folder (done, fs.read_text, fs.list_dir), and nothing is kept.

    An answer that was cut off is printed as far as it came, with a warning on standard error.

    Exit codes: 0 it ended well, 1 it failed or was truncated, 2 wrong usage, 130 it was cancelled.

    Examples:

      coven cast "what files are here?"

      coven cast --json "read notes.md" | jq .answer

      git diff | coven cast --session review -

      coven cast --attach chart.png "what does this show?"

      coven cast --crystal crystals.py:Mine --medium python "add the numbers from 1 to 100"
    """
    import msgspec

    from branches.agents.crystal import is_cut
    from coven.answers import answer_of
    from coven.asking import ask, read_intent
    from coven.recipe import Changes, find_recipe
    from coven.terminal import tell
    from leaves.chats.console import read_file

    recipe = find_recipe(file, nats, Changes(agents, crystal, medium))
    for problem in recipe.warnings:
        tell(str(problem))
    follow = None
    if sys.stderr.isatty():
        from coven.cli._watching import watch as follow
    try:
        files = tuple(map(read_file, attach or ()))
    except OSError as error:
        raise typer.BadParameter(f"{error.filename or 'the file'}: {error.strerror}", param_hint="--attach") from None
    with redirect_stdout(sys.stderr):  # it has the answer alone, whatever a spell or a library prints
        answered = ask(recipe, read_intent(intent), session=session, follow=follow, files=files)
    if answered is None:
        raise typer.Exit(130)
    ended = answered.ended
    if as_json:
        _print(msgspec.json.encode(answer_of(ended)).decode())
    elif ended.ending == "terminated":
        _print(ended.answer if isinstance(ended.answer, str) else msgspec.json.encode(ended.answer).decode())
    else:
        how = f"{ended.ending} by {ended.ward}" if ended.ward else ended.ending
        tell(f"coven: the episode was {how}: {ended.error}" if ended.ending != "failed" else f"coven: {ended.error}")
    if is_cut(ended.finish):
        why = "at its limit of tokens (`max_tokens`)" if ended.finish == "length" else "by its provider"
        tell(f"coven: the answer was cut off {why}")
    if not as_json:
        for each in ended.attachments:
            tell(f"attached: {each.name}, {each.media_type}, {len(each.body):,} bytes; with --json its bytes are there")
    raise typer.Exit(answered.code)


def _print(text: str) -> None:
    """Write the answer whole; what a terminal would obey is shown instead."""
    from leaves.chats._terminal import visible

    if sys.stdout.isatty():
        text = visible(text)
    sys.stdout.buffer.write(f"{text}\n".encode(sys.stdout.encoding or "utf-8", "replace"))
    sys.stdout.buffer.flush()
