"""The tool turn in LangGraph: a graph of a model and its tools, one thread, the SQLite checkpointer.

As its documentation has it, but for SQLite's `synchronous=NORMAL`: then a commit survives the end of the process and
no power cut, which is what our profile `process` promises. The synchronous API is used, which is faster here.
"""

from __future__ import annotations

import sqlite3
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

from benchmarks.seats import serve


def play(connection: Connection, folder: Path, durability: str, delta: bool = False) -> None:
    """One thread; `durability` is LangGraph's own, `delta` its channel in beta that stores changes alone."""
    serve(connection, _Thread(folder, durability, delta))


class _Thread:
    def __init__(self, folder: Path, durability: str, delta: bool) -> None:
        from langchain_core.messages import AIMessage, ToolMessage
        from langgraph.channels.delta import DeltaChannel
        from langgraph.checkpoint.sqlite import SqliteSaver
        from langgraph.graph import END, START, MessagesState, StateGraph
        from langgraph.graph.message import AnyMessage, _messages_delta_reducer
        from typing_extensions import TypedDict

        class Growing(TypedDict):
            messages: Annotated[list[Any], DeltaChannel(_messages_delta_reducer)]

        Growing.__annotations__ = {"messages": Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]}

        def model(state: Any) -> Any:
            last = state["messages"][-1]
            if isinstance(last, ToolMessage):
                return {"messages": [AIMessage(f"it said {last.content}")]}
            call = {"name": "echo", "args": {"text": "hello"}, "id": "t1"}
            return {"messages": [AIMessage("", tool_calls=[call])]}

        def tools(state: Any) -> Any:
            (call,) = state["messages"][-1].tool_calls
            return {"messages": [ToolMessage(call["args"]["text"], tool_call_id=call["id"])]}

        def onward(state: Any) -> str:
            return "tools" if state["messages"][-1].tool_calls else END

        self._connection = sqlite3.connect(folder / "langgraph.sqlite", check_same_thread=False)
        saver = SqliteSaver(self._connection)
        saver.setup()
        self._connection.execute("PRAGMA synchronous=NORMAL")
        graph = StateGraph(Growing if delta else MessagesState)
        graph.add_node("model", model)
        graph.add_node("tools", tools)
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", onward, ["tools", END])
        graph.add_edge("tools", "model")
        self._graph = graph.compile(checkpointer=saver)
        self._config: Any = {"configurable": {"thread_id": "kitchen"}}
        self._durability: Any = durability
        self._turns = 0

    def advance(self, turns: int) -> None:
        """What was said until then as one update: what came of storing it turn by turn is not measured."""
        from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

        said: list[Any] = []
        for number in range(self._turns, turns):
            call: Any = {"name": "echo", "args": {"text": "hello"}, "id": "t1"}
            said += [
                HumanMessage("please echo", id=f"{number}.0"),
                AIMessage("", tool_calls=[call], id=f"{number}.1"),
                ToolMessage("hello", tool_call_id="t1", id=f"{number}.2"),
                AIMessage("it said hello", id=f"{number}.3"),
            ]
        if said:
            self._graph.update_state(self._config, {"messages": said}, as_node="model")
        self._turns = max(turns, self._turns)

    def play(self, turns: int) -> list[float]:
        """Each turn is one run of the graph."""
        took: list[float] = []
        for _ in range(turns):
            began = time.perf_counter()
            given = {"messages": [{"role": "user", "content": "please echo"}]}
            self._graph.invoke(given, self._config, durability=self._durability)
            took.append((time.perf_counter() - began) * 1000)
        self._turns += turns
        return took

    def stored(self) -> int:
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        (size,) = self._connection.execute("PRAGMA page_size").fetchone()
        return pages * size
