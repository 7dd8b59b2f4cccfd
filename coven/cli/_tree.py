"""A loom as a tree for people: threads, their turns, and below a turn its children and the forks that go on from it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType
    from rich.tree import Tree

    from branches.agents.circle import Observation
    from branches.agents.loom import Loom, Thread, Turn
    from branches.agents.prices import Price

_SAID, _ARGUMENTS, _RESULT = 60, 40, 40
_GATES = 6


def loom_tree(
    loom: Loom, threads: tuple[Thread, ...] | None = None, prices: Mapping[str, Price] | None = None
) -> RenderableType:
    """The tree of these threads, with what hangs below them; of all without any. Costs are shown by these prices."""
    from rich.console import Group

    forks: defaultdict[str, list[Thread]] = defaultdict(list)
    for thread in loom.threads:
        if thread.shared:
            forks[thread.turns[thread.shared - 1].id].append(thread)
    chosen = tuple(thread for thread in loom.threads if not thread.shared) if threads is None else threads
    return Group(*(_tree(loom, thread, forks, prices or {}) for thread in chosen))


def shortened(text: str, width: int) -> str:
    """The text in one line of at most so many characters, without any that a terminal obeys."""
    line = "".join(character if character.isprintable() else "\ufffd" for character in " ".join(text.split()))
    return line if len(line) <= width else line[: width - 1] + "…"


def told_arguments(arguments: Mapping[str, Any]) -> str:
    """The arguments of a gate call by their names, with their values as JSON."""
    import msgspec

    return ", ".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in arguments.items())


def count(number: int, noun: str) -> str:
    """So many of something."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _tree(
    loom: Loom,
    thread: Thread,
    forks: dict[str, list[Thread]],
    prices: Mapping[str, Price],
    parent: Tree | None = None,
) -> Tree:
    """The own turns of a thread, below its heading."""
    from rich.text import Text
    from rich.tree import Tree

    from coven.looms import cost_of, dollars

    usage, cost = thread.usage, dollars(cost_of(thread.own, prices))
    what = "child" if parent is not None and not thread.shared else "fork" if thread.shared else "session"
    named = shortened(thread.entity_id[:8] if what == "child" else thread.session or thread.entity_id, 60)
    heading = Text.assemble(
        (f"{what} {named}", "bold"),
        f"  {thread.ending}, {count(len(thread.own), 'turn')}, {usage.prompt:,} + {usage.completion:,} tokens"
        + (f", {cost}" if cost else ""),
    )
    tree = Tree(heading) if parent is None else parent.add(heading)
    for turn in thread.own:
        if turn.intent is not None:
            tree.add(Text(f"» {shortened(turn.intent, _SAID)}", "cyan"))
        node = tree.add(_label(turn, prices))
        for child in loom.children(turn.id):
            _tree(loom, child, forks, prices, node)
        for fork in forks.get(turn.id, ()):
            _tree(loom, fork, forks, prices, node)
    return tree


def _label(turn: Turn, prices: Mapping[str, Price]) -> RenderableType:
    from rich.text import Text

    from coven.looms import cost_of, dollars

    label = Text.assemble(f"{turn.sequence} ", (turn.id[:8], "dim"))
    if turn.utterance.strip():
        label.append(f" {shortened(turn.utterance, _SAID)}")
    usage = turn.metadata.usage
    if usage.prompt or usage.completion:
        cached = f", {usage.cached:,} cached" if usage.cached else ""
        label.append(f"  {usage.prompt:,} + {usage.completion:,} tokens{cached}", "dim")
        if cost := dollars(cost_of((turn,), prices)):
            label.append(f"  {cost}", "dim")
    if turn.finish in ("length", "other"):
        label.append(f"  cut off ({turn.finish})", "yellow")
    if turn.reward is not None:
        label.append(f"  reward {turn.reward:g}", "yellow")
    if turn.ending is not None:
        why = f" ({shortened(turn.reason, _SAID)})" if turn.reason and turn.reason != turn.ending else ""
        label.append(f"  {turn.ending}{why}", "green" if turn.terminated else "red")
    for call in turn.gate_calls[:_GATES]:
        label.append("\n   ").append(_gate(call), "red" if call.is_error else "")
    if len(turn.gate_calls) > _GATES:
        label.append(f"\n   … and {len(turn.gate_calls) - _GATES} more gate calls")
    return label


def _gate(call: Observation) -> str:
    result = f" → {shortened(call.text, _RESULT)}" if call.gate != "done" else ""
    return f"{shortened(call.gate, 30)}({shortened(told_arguments(call.args), _ARGUMENTS)}){result}"
