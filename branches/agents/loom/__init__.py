"""The loom: the tree of every turn, read from the Agents journal. Nothing is stored beside that."""

from branches.agents.loom._jsonl import InvalidLoomLine, export_loom, import_loom
from branches.agents.loom._loom import Loom, Thread, UnknownTurn
from branches.agents.loom._read import find_turn, read_loom, weave
from branches.agents.loom._rewards import implicit_reward, reward, rewarded
from branches.agents.loom._turn import LoomIsAppendOnly, Shown, Turn, TurnMetadata
from branches.agents.loom._weaver import Weaver
from branches.agents.root_call import RootCall

__all__ = [
    "InvalidLoomLine",
    "Loom",
    "LoomIsAppendOnly",
    "RootCall",
    "Shown",
    "Thread",
    "Turn",
    "TurnMetadata",
    "UnknownTurn",
    "Weaver",
    "export_loom",
    "find_turn",
    "implicit_reward",
    "import_loom",
    "read_loom",
    "reward",
    "rewarded",
    "weave",
]
