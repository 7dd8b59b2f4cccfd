"""`coven loom …`."""

from __future__ import annotations

import asyncio
import math
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from coven.cli._options import DEFAULT_FILE, File, Format, Nats, Output

if TYPE_CHECKING:
    from collections.abc import Mapping

    from branches.agents.loom import Loom, Thread
    from branches.agents.prices import Price

app = typer.Typer(
    name="loom", help="Every turn that was taken: threads, forks, children, rewards.", no_args_is_help=True
)

Agents = Annotated[str | None, typer.Option(help="Which agents instance, where the coven has several.", metavar="NAME")]
TurnId = Annotated[str, typer.Argument(help="The id of a turn, or its beginning.", metavar="TURN")]
MaybeSession = Annotated[str | None, typer.Option("--session", "-s", help="Only this session and what belongs to it.")]


@app.command("list")
def list_threads(
    agents: Agents = None, file: File = DEFAULT_FILE, nats: Nats = None, output: Format = Output.TEXT
) -> None:
    """List the threads: one a session, oldest first, with what it cost and how it stands.

    Of several agents instances all are listed, one after the other, unless one is named.

    Example:

      coven loom list
    """
    import msgspec

    from coven.cli._text import columns
    from coven.looms import thread_data

    looms = asyncio.run(_read_all(file, nats, agents))
    listed = [(name, thread, prices) for name, (loom, prices) in looms.items() for thread in loom.threads]
    if output is Output.JSON:
        data = [{"agents": name, **thread_data(thread, prices)} for name, thread, prices in listed]
        typer.echo(msgspec.json.encode(data))
        return
    if not listed:
        typer.echo("there are no threads yet")
        return
    rows = [("agents", "session", "turns", "tokens", "cost", "ending", "first intent")]
    rows += [(name, *_row(thread, prices)) for name, thread, prices in listed]
    hidden = {0} if len(looms) == 1 else set[int]()
    hidden |= set() if any(row[4] for row in rows[1:]) else {4}
    rows = [tuple(cell for place, cell in enumerate(row) if place not in hidden) for row in rows]
    for line in columns(rows[1:], rows[0]):
        typer.echo(line)


def _row(thread: Thread, prices: Mapping[str, Price]) -> tuple[str, ...]:
    from coven.cli._tree import shortened
    from coven.looms import cost_of, dollars

    usage, intents = thread.usage, [turn.intent for turn in thread.own if turn.intent is not None]
    return (
        shortened(thread.session or thread.entity_id, 40),
        str(len(thread)),
        f"{usage.prompt + usage.completion:,}",
        dollars(cost_of(thread.own, prices)),
        thread.ending,
        shortened(intents[0] if intents else "", 60),
    )


@app.command()
def show(
    session: Annotated[str, typer.Argument(help="The session, as `coven loom list` names it.")],
    agents: Agents = None,
    file: File = DEFAULT_FILE,
    nats: Nats = None,
    output: Format = Output.TEXT,
) -> None:
    """Show a session as a tree: its turns, the children below the turns that called them, and its forks.

    A fork is shown with what it was forked from.

    Examples:

      coven loom show console

      coven loom show console -o json | jq '.turns[].utterance'
    """
    looms = asyncio.run(_read_all(file, nats, agents, session))
    found = {name: (loom, prices) for name, (loom, prices) in looms.items() if loom.turns}
    if not found:
        raise typer.BadParameter(f"session {session!r} has no turns; `coven loom list` shows those that have")
    if len(found) > 1:
        raise typer.BadParameter(f"session {session!r} has turns in {' and '.join(found)}: say which with --agents")
    ((loom, prices),) = found.values()
    _show(loom, output, prices)


def _show(loom: Loom, output: Output, prices: Mapping[str, Price] | None = None) -> None:
    import msgspec

    from coven.looms import loom_data

    if output is Output.JSON:
        typer.echo(msgspec.json.encode(loom_data(loom, prices)))
        return
    from rich.console import Console

    from coven.cli._tree import count, loom_tree

    width = None if sys.stdout.isatty() else 120
    Console(width=width, highlight=False, markup=False, emoji=False).print(loom_tree(loom, prices=prices))
    if loom.unreadable:
        where = ", ".join(map(str, loom.unreadable))
        typer.echo(f"{count(len(loom.unreadable), 'record')} could not be read, at {where}", err=True)


@app.command()
def export(
    target: Annotated[Path, typer.Argument(help="The file to write; `-` is standard output.")] = Path("-"),
    session: MaybeSession = None,
    agents: Agents = None,
    file: File = DEFAULT_FILE,
    nats: Nats = None,
    rewards: Annotated[
        Literal["given", "circle", "implicit"],
        typer.Option(help="Where nobody gave a reward: none, what the circle's function says, or how its gates fared."),
    ] = "circle",
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
) -> None:
    """Write turns as lines of JSON, one turn a line, in the order in which they were recorded.

    Examples:

      coven loom export turns.jsonl

      coven loom export --rewards implicit turns.jsonl

      coven loom export --session console | jq 'select(.terminated)'
    """
    from branches.agents.loom import export_loom
    from coven.cli._tree import count
    from coven.transfer import WholeFile

    if target != Path("-") and target.exists() and not force:
        raise typer.BadParameter(f"{target} is there already; choose another name, or --force")
    loom = asyncio.run(_read(file, nats, agents, session, rewards))
    with nullcontext(sys.stdout.buffer) if target == Path("-") else WholeFile(target) as stream:
        stream.writelines(export_loom(loom))
        stream.flush()
    typer.echo(f"exported {count(len(loom), 'turn')} in {count(len(loom.threads), 'thread')}", err=True)


@app.command("import")
def import_turns(
    source: Annotated[Path, typer.Argument(help="A file of turns, from here or elsewhere; `-` is standard input.")],
    output: Format = Output.TEXT,
) -> None:
    """Read turns from a file, check that they are a loom, and show it. No journal is written.

    To move the records themselves, from which everything can go on, use `coven journal export` and `import`.

    Examples:

      coven loom import turns.jsonl

      coven loom import turns.jsonl -o json | jq '.threads | length'
    """
    from branches.agents.loom import import_loom

    with nullcontext(sys.stdin.buffer) if source == Path("-") else source.open("rb") as lines:
        loom = import_loom(lines)
    _show(loom, output)


@app.command()
def reward(
    turn: TurnId,
    value: Annotated[float, typer.Argument(help="The reward; a later one takes its place.")],
    by: Annotated[str, typer.Option(help="Who gives it.")] = "",
    agents: Agents = None,
    file: File = DEFAULT_FILE,
    nats: Nats = None,
) -> None:
    """Give a turn a reward. It is an entry beside the turn, which stays as it is.

    Examples:

      coven loom reward 3f2a9c1b 1

      coven loom reward 3f2a9c1b --by Ada -- -0.5
    """

    if not math.isfinite(value):
        raise typer.BadParameter("a reward is a finite number")

    async def work() -> str:
        from branches.agents.loom import find_turn
        from branches.agents.loom import reward as give
        from coven.looms import agents_journal
        from coven.shelf import shelf_of

        async with shelf_of(file, nats) as shelf:
            journal = await agents_journal(shelf, agents)
            found = await find_turn(journal, turn)
            await give(journal, found, value, by=by)
            return found.id

    typer.echo(f"turn {asyncio.run(work())} has the reward {value:g}")


@app.command()
def fork(
    turn: TurnId,
    session: Annotated[str | None, typer.Option(help="The name of the new session; default: a fresh one.")] = None,
    crystal: Annotated[str | None, typer.Option(help="One of the other `crystals`, by its name.")] = None,
    agents: Agents = None,
    file: File = DEFAULT_FILE,
    nats: Nats = None,
) -> None:
    """Begin a new session that goes on from a turn. The thread that it comes from stays as it is.

    Nothing happens in it until it is asked something.

    Example:

      coven loom fork 3f2a9c1b --session another-way

      coven cast --session another-way "and if you had looked elsewhere?"
    """

    async def work() -> str:
        from branches.agents.forking import fork as begin
        from branches.agents.loom import find_turn
        from coven.looms import agents_instance, agents_journal
        from coven.shelf import shelf_of
        from journals import random_id

        name = session or f"fork-{random_id()}"
        async with shelf_of(file, nats) as shelf:
            known = agents_instance(shelf.config, agents).crystals
            if crystal is not None and crystal not in known:
                there = f"there are: {', '.join(known)}" if known else "name some under `crystals:`"
                raise typer.BadParameter(f"there is no crystal {crystal!r}; {there}")
            journal = await agents_journal(shelf, agents)
            if await journal.last(session=name) is not None:
                raise typer.BadParameter(f"session {name!r} is there already; choose another name")
            found = await find_turn(journal, turn)
            await begin(journal, found.session or "", found.id, name, crystal=crystal)
        return name

    name = asyncio.run(work())
    typer.echo(name)
    named = f"--agents {agents} " if agents is not None else ""
    typer.echo(f'now: coven cast {named}--session {name} "…"', err=True)


async def _read_all(
    file: Path, nats: str | None, agents: str | None, session: str | None = None
) -> dict[str, tuple[Loom, Mapping[str, Price]]]:
    """The looms of all agents instances by their names, or that of the one that is named, with what models cost."""
    from coven.looms import AGENTS, agents_instance, loom_of, price_list
    from coven.shelf import shelf_of

    async with shelf_of(file, nats) as shelf:
        known = [branch.name for branch in shelf.config.of_type(AGENTS)]
        names = known if agents is None and len(known) > 1 else [agents_instance(shelf.config, agents).name]
        return {name: (await loom_of(shelf, name, session), price_list(shelf.config, name)) for name in names}


async def _read(
    file: Path, nats: str | None, agents: str | None, session: str | None = None, rewards: str = "circle"
) -> Loom:
    from coven.looms import Rewards, loom_of
    from coven.shelf import shelf_of

    async with shelf_of(file, nats) as shelf:
        return await loom_of(shelf, agents, session, Rewards(rewards))
