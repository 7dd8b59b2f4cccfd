"""The rehearsal crystal: what it understands, what it says, and that it stays within its circle."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branches.agents.context import NUDGE
from branches.agents.crystal import CrystalRequest, CrystalResponse, Message, ToolCall, validate
from branches.agents.gates import DONE, GateDefinition
from branches.catalogue import LeafKind
from leaves.catalogue import CATALOGUE
from leaves.crystals._phrases import LONGEST, understand
from leaves.crystals.rehearsal import RehearsalCrystal

GATES = ("fs.list_dir", "fs.read_text", "fs.write_text", "shell.exec")
TOOLS = (DONE, *(GateDefinition(name, "", {}) for name in GATES))


async def ask(*messages: Message, tools: tuple[GateDefinition, ...] = TOOLS, choice: Any = "auto") -> CrystalResponse:
    request = CrystalRequest(messages, tools, choice)
    return validate(await RehearsalCrystal().invoke(request), request)


def wishes(text: str) -> list[tuple[str, dict[str, Any]]]:
    return [(wish.gate, wish.arguments) for wish in understand(text) or []]


def answered(*results: tuple[ToolCall, object]) -> list[Message]:
    """A request, its calls, and their results; a string that begins with `Error:` is one."""
    calls = tuple(call for call, _ in results)
    texts = [result if isinstance(result, str) else json.dumps(result) for _, result in results]
    return [
        Message("user", "something"),
        Message("assistant", None, calls),
        *(
            Message("tool", text, tool_call_id=call.id, is_error=text.startswith("Error:"))
            for call, text in zip(calls, texts, strict=True)
        ),
    ]


def call(gate: str, **arguments: object) -> ToolCall:
    return ToolCall(f"id_{gate}_{len(arguments)}", gate, json.dumps(arguments))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("what files are here?", [("fs.list_dir", {"path": "."})]),
        ("What's here", [("fs.list_dir", {"path": "."})]),
        ("list the files in docs, please", [("fs.list_dir", {"path": "docs"})]),
        ("ls", [("fs.list_dir", {"path": "."})]),
        ("read notes.md", [("fs.read_text", {"path": "notes.md"})]),
        ("Could you please read 'my notes.md'?", [("fs.read_text", {"path": "my notes.md"})]),
        ("what does notes.md say?", [("fs.read_text", {"path": "notes.md"})]),
        ("read a.txt and b.txt", [("fs.read_text", {"path": "a.txt"}), ("fs.read_text", {"path": "b.txt"})]),
        ("write 'milk' to list.txt", [("fs.write_text", {"path": "list.txt", "text": "milk"})]),
        ("write milk and bread to list.txt", [("fs.write_text", {"path": "list.txt", "text": "milk and bread"})]),
        (
            "overwrite list.txt with 'eggs'",
            [("fs.write_text", {"path": "list.txt", "text": "eggs", "overwrite": True})],
        ),
        (
            "write 'eggs' to list.txt and overwrite it",
            [("fs.write_text", {"path": "list.txt", "text": "eggs", "overwrite": True})],
        ),
        (
            "write 'milk' to list.txt and then read list.txt",
            [("fs.write_text", {"path": "list.txt", "text": "milk"}), ("fs.read_text", {"path": "list.txt"})],
        ),
        ("what files are here and run pwd", [("fs.list_dir", {"path": "."}), ("shell.exec", {"cmd": "pwd"})]),
        ("run ls -l", [("shell.exec", {"cmd": "ls -l"})]),
        (
            "run ls -l and then read list.txt",
            [("shell.exec", {"cmd": "ls -l"}), ("fs.read_text", {"path": "list.txt"})],
        ),
        (
            "write 'read this and run that' to a.txt, then run pwd",
            [("fs.write_text", {"path": "a.txt", "text": "read this and run that"}), ("shell.exec", {"cmd": "pwd"})],
        ),
    ],
)
def test_phrases_become_gate_calls(text: str, expected: list[tuple[str, dict[str, Any]]]) -> None:
    assert wishes(text) == expected


def test_what_a_named_person_says_is_understood_too() -> None:
    assert wishes("Ada: what files are here?") == [("fs.list_dir", {"path": "."})]
    assert wishes("Bob (he/him): please read a.txt") == [("fs.read_text", {"path": "a.txt"})]
    assert wishes("run echo Ada: read a.txt") == [("shell.exec", {"cmd": "echo Ada: read a.txt"})]


@pytest.mark.parametrize(
    "command", ["ls; rm -rf /", "ls && pwd", 'echo "; touch pwned "', "cat ../secret", "echo $(id)"]
)
def test_a_command_reaches_the_gate_as_it_was_typed(command: str) -> None:
    assert wishes(f"run {command}") == [("shell.exec", {"cmd": command})]


@pytest.mark.parametrize(
    "text",
    [
        *("", "hello", "read", "write", "what time is it?", "list my things", "x" * (LONGEST + 1)),
        *("write 'x' to my notes.txt", "write 'x' to a.txt twice"),  # not to `my`, and not once
    ],
)
async def test_what_it_does_not_understand_it_answers_with_what_it_does(text: str) -> None:
    answer = await ask(Message("user", text))
    assert not answer.tool_calls
    assert answer.content is not None
    assert "rehearsal crystal" in answer.content
    assert "read notes.md" in answer.content


async def test_calls_are_json_with_ids_that_come_from_the_messages() -> None:
    first = await ask(Message("user", "read a.txt and b.txt"))
    assert [(c.id, c.gate, json.loads(c.arguments)) for c in first.tool_calls] == [
        ("rehearsal_1_1", "fs.read_text", {"path": "a.txt"}),
        ("rehearsal_1_2", "fs.read_text", {"path": "b.txt"}),
    ]
    assert await ask(Message("user", "read a.txt and b.txt")) == first
    later = await ask(Message("user", "hi"), Message("assistant", "hello"), Message("user", "read a.txt"))
    assert [c.id for c in later.tool_calls] == ["rehearsal_3_1"]


async def test_it_never_calls_a_gate_that_it_is_not_offered() -> None:
    answer = await ask(Message("user", "run pwd and then read a.txt"), tools=TOOLS[:3])
    assert not answer.tool_calls
    assert answer.content == "I would call shell.exec for that, but it is not among my gates here."
    unhelped = await ask(Message("user", "hi"), tools=(DONE,))
    assert unhelped.content is not None
    assert "Try" not in unhelped.content
    assert not (await ask(Message("user", "read a.txt"), choice="none")).tool_calls


async def test_a_listing_is_told_as_lines() -> None:
    entries = [{"name": "docs", "type": "folder"}, {"name": "notes.md", "type": "file", "size": 1200}]
    result = {"path": ".", "entries": entries, "total": 5, "truncated": True}
    answer = await ask(*answered((call("fs.list_dir", path="."), result)))
    assert answer.content == "In the workspace:\n  docs/\n  notes.md  (1,200 bytes)\n  ... and 3 more"


async def test_texts_writings_and_outputs_are_told() -> None:
    answer = await ask(
        *answered(
            (
                call("fs.write_text", path="list.txt", text="milk"),
                {"path": "list.txt", "size": 4, "overwritten": False},
            ),
            (call("fs.read_text", path="list.txt"), {"path": "list.txt", "text": "milk\n", "size": 5}),
            (call("shell.exec", cmd="ls x"), {"exit_code": 2, "stdout": "", "stderr": "no such file\n"}),
        )
    )
    assert answer.content == (
        "I wrote list.txt (4 bytes).\n\nlist.txt says:\nmilk\n\n$ ls x\nno such file\n(exit code 2)"
    )


@pytest.mark.parametrize(
    ("made", "error", "told"),
    [
        (
            call("fs.read_text", path="../x"),
            "Error: denied: '../x' is denied: `..` leads out of the workspace",
            "I could not read ../x: `..` leads out of the workspace (denied)",
        ),
        (
            call("fs.read_text", path="a.txt"),
            "Error: failed: 'a.txt': there is no such file",
            "I could not read a.txt: there is no such file",
        ),
        (
            call("fs.write_text", path="a.txt", text="x"),
            "Error: failed: 'a.txt' exists already; set overwrite to true to replace it",
            "a.txt exists already. To replace it, say: overwrite a.txt with '...'",
        ),
        (call("shell.exec", cmd="rm x"), "Error: denied: not allowed", "I could not run rm x: not allowed (denied)"),
        (
            call("other.gate"),
            "Error: timeout: no answer within 60 s",
            "I could not call other.gate: no answer within 60 s (timeout)",
        ),
    ],
)
async def test_errors_are_told_plainly(made: ToolCall, error: str, told: str) -> None:
    assert (await ask(*answered((made, error)))).content == told


async def test_results_of_gates_that_it_does_not_know_are_shown_as_they_are() -> None:
    answer = await ask(*answered((call("other.gate", x=1), "it's 5 o'clock"), (call("other.gate"), [1, 2])))
    assert answer.content == "it's 5 o'clock\n\n[1, 2]"


async def test_it_finishes_by_done_where_it_must() -> None:
    nudged = await ask(Message("user", "hi"), Message("assistant", "hello"), Message("user", NUDGE))
    assert [(c.gate, json.loads(c.arguments)) for c in nudged.tool_calls] == [("done", {"answer": "hello"})]
    required = await ask(Message("user", "hello"), choice="required")
    assert [c.gate for c in required.tool_calls] == ["done"]


async def test_it_streams_the_words_of_its_answer() -> None:
    words: list[str] = []
    response = await RehearsalCrystal().invoke(CrystalRequest([Message("user", "hi")], TOOLS), words.append)
    assert len(words) > 10
    assert "".join(words) == response.content


@given(st.text(max_size=300))
async def test_whatever_is_said_its_answer_keeps_the_contract(text: str) -> None:
    answer = await ask(Message("user", text))
    assert all(c.gate in GATES for c in answer.tool_calls)


@given(
    st.lists(
        st.one_of(st.none(), st.text(max_size=50), st.dictionaries(st.text(max_size=5), st.integers())), max_size=4
    )
)
async def test_whatever_a_gate_answers_it_tells_something(results: list[object]) -> None:
    made = [
        (ToolCall(f"c{n}", GATES[n], "{}"), {"entries": 5, "text": None, "size": []} if n == 3 else result)
        for n, result in enumerate(results)
    ]
    assert (await ask(*answered(*made))).content


def test_it_stands_in_the_catalogue() -> None:
    info = CATALOGUE.of(LeafKind.CRYSTAL)["rehearsal"]
    assert info.load() is RehearsalCrystal
    assert not info.secrets
