"""Compiled routes: what a record becomes, and what is said when it cannot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from branches.agents.entries import AgentChunk, AgentPrompt, AgentResponse, AgentThought, AgentToolCall, AgentToolFault
from branches.chat import ChatAfferent, ChatEfferentDraft
from branches.chat.entries import ChatActivity
from branches.manifest import Direction, Kind
from branches.spellcasting import SpellInvocation, SpellResult
from branches.spellcasting.entries import SpellFault
from covenants import MANIFESTS, Route, TransformFailed
from covenants.routing import RoutedBy
from journals import Entry, Record
from tests.covenants.configs import RIGHT, configured, edited

REPLY = "  - AgentResponse -> ChatEfferentDraft\n"
LONG_REPLY = "  - route: AgentResponse -> ChatEfferentDraft\n"


def record(entry: Entry, *, journal: str = "agents", origin: str | None = "chat") -> Record[Any]:
    return Record(
        journal=journal,
        position=1,
        id="r1",
        kind=entry.kind(),
        session="s",
        entry=entry,
        time=1.0,
        correlation_id="c1",
        origin=origin,
    )


def route_of(text: str, kind: str, **options: Any) -> Route:
    (route,) = [route for route in configured(text, **options).routes if route.source_kind == kind]
    return route


def reply(more: str, **options: Any) -> Route:
    return route_of(edited({REPLY: LONG_REPLY + more}), "AgentResponse", **options)


RESPONSE = AgentResponse(sender="ada", text="Hello")
CALL = AgentToolCall(correlation_id="c1", tool_name="fs.read_text", arguments={"path": "notes.md"})


def test_a_compiled_route_is_what_the_router_asks_for() -> None:
    route: RoutedBy = route_of(RIGHT, "AgentToolCall")
    assert (route.name, route.source_instance, route.source_kind) == (
        "agents.AgentToolCall -> spellcasting.SpellInvocation",
        "agents",
        "AgentToolCall",
    )
    assert (route.target_instance, route.fault_instance) == ("spellcasting", "agents")
    assert (route.from_beginning, route.max_hops, route.short_lived) == (False, None, False)


def test_fields_of_the_same_name_map_by_themselves() -> None:
    entry = ChatAfferent(sender="ada", text="Hello", message_id="m1")
    assert route_of(RIGHT, "ChatAfferent").apply(record(entry, journal="chat")) == [
        AgentPrompt(sender="ada", text="Hello")
    ]


def test_map_names_the_others() -> None:
    route = reply("    map: {sender: ending, text: \"'[' + sender + '] ' + text\"}\n")
    assert route.apply(record(RESPONSE)) == [ChatEfferentDraft(sender="terminated", text="[ada] Hello")]


def test_map_takes_from_the_record_and_from_the_file() -> None:
    route = reply("    map: {sender: record.session, text: \"'done'\"}\n")
    assert route.apply(record(RESPONSE)) == [ChatEfferentDraft(sender="s", text="done")]


def test_when_filters() -> None:
    route = reply("    when: origin == 'chat' && text != ''\n")
    assert len(route.apply(record(RESPONSE))) == 1
    assert route.apply(record(RESPONSE, origin="discord")) == []
    assert route.when == "origin == 'chat' && text != ''"


def test_nowhere_makes_nothing() -> None:
    route = route_of(RIGHT, "AgentThought")
    assert route.target_instance is None
    assert route.apply(record(RESPONSE)) == []


def test_a_value_that_does_not_fit_when_it_comes_is_a_failure() -> None:
    route = reply("    map: {text: 'record.origin'}\n")
    assert route.apply(record(RESPONSE))[0] == ChatEfferentDraft(sender="ada", text="chat")
    with pytest.raises(TransformFailed, match="`text` cannot be None") as raised:
        route.apply(record(RESPONSE, origin=None))
    assert raised.value.code == "bad_value"


def test_a_condition_that_gives_no_answer_is_a_failure() -> None:
    route = reply("    when: \"ending == 'failed' ? text : true\"\n")
    assert len(route.apply(record(RESPONSE))) == 1
    with pytest.raises(TransformFailed, match="not true or false"):
        route.apply(record(AgentResponse(sender="a", text="b", ending="failed")))


def test_the_name_is_the_identity() -> None:
    assert reply("    name: replies\n").name == "replies"
    assert reply("    start: beginning\n").from_beginning
    assert not reply("    start: end\n").from_beginning


def test_several_targets_are_as_many_routes() -> None:
    critics = "  critics: {branch: agents, crystal: rehearsal}\n"
    text = edited(
        {
            "  spellcasting:": critics + "  spellcasting:",
            "ChatAfferent -> AgentPrompt": "ChatAfferent -> agents.AgentPrompt, critics.AgentPrompt",
            REPLY: "  - agents.AgentResponse -> ChatEfferentDraft\n  - critics.AgentResponse -> nowhere\n",
            "AgentToolCall ->": "agents.AgentToolCall ->",
            "-> AgentToolResult": "-> agents.AgentToolResult",
            "-> AgentToolFault": "-> agents.AgentToolFault",
            "AgentChunk ->": "agents.AgentChunk ->",
            "AgentStreamCompleted ->": "agents.AgentStreamCompleted ->",
            "AgentThought -> nowhere\n": "agents.AgentThought -> nowhere\n"
            + "".join(
                f"  - critics.{kind} -> nowhere\n"
                for kind in ("AgentThought", "AgentChunk", "AgentStreamCompleted", "AgentToolCall")
            ),
        }
    )
    routes = [route for route in configured(text).routes if route.source_kind == "ChatAfferent"]
    assert [(route.name, route.target_instance) for route in routes] == [
        ("chat.ChatAfferent -> agents.AgentPrompt", "agents"),
        ("chat.ChatAfferent -> critics.AgentPrompt", "critics"),
    ]


# What an agent does, for a chat

ACTIVE = {
    "  - route: AgentToolCall -> SpellInvocation\n": "  - route: AgentToolCall -> SpellInvocation, ChatActivity\n",
    "SpellResult -> AgentToolResult": "SpellResult -> AgentToolResult, ChatActivity",
    "SpellFault -> AgentToolFault": "SpellFault -> AgentToolFault, ChatActivity",
    "AgentThought -> nowhere": "AgentThought -> ChatActivity",
}
DONE = [
    (AgentThought(sender="agents", text="Hm."), ChatActivity(activity="thought", text="Hm.")),
    (
        CALL,
        ChatActivity(activity="call", text='{"path":"notes.md"}', tool_name="fs.read_text", correlation_id="c1"),
    ),
    (
        SpellResult(correlation_id="c1", result={"text": "milk"}),
        ChatActivity(activity="result", text='{"text":"milk"}', correlation_id="c1"),
    ),
    (
        SpellResult(correlation_id="c1", result="milk"),
        ChatActivity(activity="result", text="milk", correlation_id="c1"),
    ),
    (
        SpellFault(correlation_id="c1", error="no such file"),
        ChatActivity(activity="fault", text="no such file", correlation_id="c1"),
    ),
    (
        SpellFault(correlation_id="c1", error="not this one", code="denied"),
        ChatActivity(activity="fault", text="denied: not this one", correlation_id="c1"),
    ),
]


@pytest.mark.parametrize(("entry", "activity"), DONE)
def test_what_an_agent_does_becomes_an_activity_beside_what_it_becomes_otherwise(
    entry: Entry, activity: ChatActivity
) -> None:
    routes = [route for route in configured(edited(ACTIVE)).routes if route.source_kind == entry.kind()]
    assert routes[-1].target_instance == "chat"
    assert routes[-1].apply(record(entry)) == [activity]
    assert len(routes) == (1 if isinstance(entry, AgentThought) else 2)


def test_of_what_is_long_a_chat_gets_the_beginning() -> None:
    routes = configured(edited(ACTIVE)).routes
    (route,) = [route for route in routes if route.source_kind == "AgentThought"]
    (activity,) = route.apply(record(AgentThought(sender="agents", text="x" * 5432)))
    assert activity == ChatActivity(activity="thought", text="x" * 4000 + "\n… 1,432 characters more")


def test_what_a_chat_gets_of_an_activity_can_be_said_in_the_file() -> None:
    hidden = "  - route: AgentThought -> ChatActivity\n    map: {text: \"'Thinking.'\"}\n"
    route = route_of(edited({"  - AgentThought -> nowhere\n": hidden}), "AgentThought")
    assert route.apply(record(DONE[0][0])) == [ChatActivity(activity="thought", text="Thinking.")]


THOUGHT = "  - AgentThought -> nowhere\n"
CHUNKS = "  - AgentChunk -> ChatChunk\n"
SHOWN = "  - AgentThought -> ChatActivity\n"
AT_HOME = "    when: origin == 'chat'\n"
LOUD = "    when: size(text) > 2\n"


@pytest.mark.parametrize(
    ("thoughts", "chunks", "goes"),
    [
        (SHOWN, CHUNKS, True),
        (THOUGHT, CHUNKS, False),
        ("  - route: AgentThought -> ChatActivity\n    map: {text: \"'Thinking.'\"}\n", CHUNKS, False),
        ("  - route: AgentThought -> ChatActivity\n" + AT_HOME, CHUNKS, False),
        ("  - route: AgentThought -> ChatActivity\n" + LOUD, "  - route: AgentChunk -> ChatChunk\n" + LOUD, False),
        ("  - route: AgentThought -> ChatActivity\n" + AT_HOME, "  - route: AgentChunk -> ChatChunk\n" + AT_HOME, True),
        (SHOWN, "  - route: AgentChunk -> ChatChunk\n    map: {text: \"'*'\"}\n", True),
    ],
    ids=["shown", "nowhere", "hidden", "elsewhere", "by what it says", "in the same place", "chunks changed"],
)
def test_a_thoughts_chunks_go_only_where_the_thought_itself_goes_as_it_is(
    thoughts: str, chunks: str, goes: bool
) -> None:
    route = route_of(edited({THOUGHT: thoughts, CHUNKS: chunks}), "AgentChunk")
    piece = AgentChunk(stream="s.thought", index=0, text="Hm.", thought=True)
    made = route.apply(record(piece, origin="chat"))
    assert [getattr(each, "thought", None) for each in made] == [True] * goes
    text = AgentChunk(stream="s", index=0, text="Yes.")
    assert [getattr(each, "thought", None) for each in route.apply(record(text, origin="chat"))] == [False]


# From a tool call to a spell


def test_a_tool_call_becomes_an_invocation() -> None:
    assert route_of(RIGHT, "AgentToolCall").apply(record(CALL)) == [
        SpellInvocation(correlation_id="c1", spell="fs.read_text", arguments={"path": "notes.md"})
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "code", "says"),
    [
        ("fs.read_txt", {"path": "a"}, "unknown_tool", "did you mean fs.read_text"),
        ("shell.exec", {"cmd": "ls"}, "unknown_tool", "shell.exec"),
        ("fs.read_text", {"pth": "a"}, "bad_arguments", "`path`"),
        ("fs.read_text", {"path": 5}, "bad_arguments", "Expected `str`"),
        ("fs.read_text", {}, "bad_arguments", "`path`"),
    ],
)
def test_a_tool_call_that_nothing_can_serve_goes_home_as_a_fault(
    name: str, arguments: dict[str, Any], code: str, says: str
) -> None:
    route = route_of(RIGHT, "AgentToolCall")
    called = record(AgentToolCall(correlation_id="c1", tool_name=name, arguments=arguments))
    with pytest.raises(TransformFailed) as raised:
        route.apply(called)
    fault = route.fault(called, raised.value)
    assert isinstance(fault, AgentToolFault)
    assert (fault.correlation_id, fault.code) == ("c1", code)
    assert says in fault.error


def test_a_route_without_fault_gives_the_failure_back() -> None:
    route = route_of(RIGHT, "SpellResult")
    failure = TransformFailed("via", "no")
    with pytest.raises(TransformFailed) as raised:
        route.fault(record(SpellResult(correlation_id="c", result=1)), failure)
    assert raised.value is failure


# Functions of the user

VIA = """\
from branches.agents.entries import AgentChunk, AgentPrompt, AgentResponse
from branches.chat import ChatAfferent, ChatEfferentDraft

SECRET = 1

def shout(entry):
    return ChatEfferentDraft(text=entry.text.upper())

def twice(entry: AgentResponse) -> list[ChatEfferentDraft]:
    return [ChatEfferentDraft(text=entry.text), ChatEfferentDraft(text="again")]

def never(entry: AgentResponse) -> ChatEfferentDraft | None:
    return None

def fails(entry):
    return 1 / 0

def other(entry):
    return AgentPrompt(sender="a", text="b")

def wrong(entry):
    return ChatEfferentDraft(text=5)

async def later(entry):
    return None

def yields(entry):
    yield None

def two(entry, more):
    return None

def none():
    return None

def prompts(entry: ChatAfferent):
    return None

def gives(entry) -> AgentPrompt:
    return None

def understood(entry: "Unknown") -> "Unheard":
    return None

class Class:
    pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(VIA)
    return tmp_path


@pytest.fixture
def via(folder: Path) -> Callable[[str], Route]:
    return lambda name: reply(f"    via: mine.py:{name}\n", base=folder)


def test_via_hands_over_to_a_function(via: Callable[[str], Route]) -> None:
    assert via("shout").apply(record(RESPONSE)) == [ChatEfferentDraft(text="HELLO")]
    assert [entry.text for entry in via("twice").apply(record(RESPONSE)) if isinstance(entry, ChatEfferentDraft)] == [
        "Hello",
        "again",
    ]
    assert via("never").apply(record(RESPONSE)) == []
    assert via("understood").apply(record(RESPONSE)) == []


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("fails", "mine.py:fails raised ZeroDivisionError: division by zero (mine.py, line 16)"),
        ("other", "gave a AgentPrompt; this route takes ChatEfferentDraft"),
        ("wrong", "not valid: Expected `str`, got `int`"),
    ],
)
def test_a_function_that_fails_is_a_failure_of_its_route(via: Callable[[str], Route], name: str, says: str) -> None:
    with pytest.raises(TransformFailed) as raised:
        via(name).apply(record(RESPONSE))
    assert raised.value.code == "via"
    assert says in str(raised.value)


def test_a_function_may_choose_between_targets(folder: Path) -> None:
    class ChatNote(Entry, frozen=True, kw_only=True):
        text: str

    chat = MANIFESTS["chat"]
    manifests = {
        **MANIFESTS,
        "chat": type(chat)(branch="chat", kinds=(*chat.kinds, Kind(ChatNote, Direction.ACCEPTS))),
    }
    text = edited({REPLY: "  - route: AgentResponse -> ChatEfferentDraft, ChatNote\n    via: mine.py:shout\n"})
    route = route_of(text, "AgentResponse", base=folder, manifests=manifests)
    assert [target.kind.name for target in route.targets] == ["ChatEfferentDraft", "ChatNote"]
    assert route.apply(record(RESPONSE)) == [ChatEfferentDraft(text="HELLO")]


def test_transformations_are_pure() -> None:
    route = reply("    map: {text: \"text + '!'\"}\n")
    assert route.apply(record(RESPONSE)) == route.apply(record(RESPONSE))


def test_a_route_tells_what_it_is() -> None:
    assert repr(reply("    when: origin == 'x'\n")) == (
        "<Route agents.AgentResponse -> chat.ChatEfferentDraft when origin == 'x'>"
    )
    assert repr(route_of(RIGHT, "AgentThought")) == "<Route agents.AgentThought -> nowhere>"
