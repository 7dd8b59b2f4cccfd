"""The check: every case is caught at its place with a hint, and nothing else is said."""

from __future__ import annotations

from typing import Any

import pytest

from branches.manifest import Direction, Kind
from covenants import CODES, MANIFESTS, Severity
from covenants.routing import Approval
from journals import Entry
from tests.covenants.cases import CASES, Case
from tests.covenants.configs import MARK, RIGHT, checked, configured, edited, problems, unmarked

CRITICS = "  critics:\n    branch: agents\n    crystal: rehearsal\n"
CRITICS_SILENT = "".join(
    f"  - critics.{kind} -> nowhere\n"
    for kind in ("AgentThought", "AgentChunk", "AgentStreamCompleted", "AgentToolCall")
)
"""What makes two agents instances of one: every line of the first must then say which it means."""


def qualified(text: str = RIGHT) -> str:
    """The right file with every kind of the Agents branch qualified."""
    head, arrow, covenant = text.partition("covenant:\n")
    for kind in (
        *("AgentPrompt", "AgentResponse", "AgentThought", "AgentChunk"),
        *("AgentStreamCompleted", "AgentToolCall", "AgentToolResult"),
    ):
        covenant = covenant.replace(kind, f"agents.{kind}")
    return head + arrow + covenant.replace("-> AgentToolFault", "-> agents.AgentToolFault")


def test_a_right_file_has_no_problem() -> None:
    assert problems(RIGHT) == ()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_is_caught_with_its_place_and_a_hint(case: Case) -> None:
    text, (line, column) = unmarked(edited(case.edits))
    found = problems(text, case.environ)
    alike = [problem for problem in found if problem.code == case.code]
    assert len(alike) == 1, "\n".join(map(str, found))
    problem = alike[0]
    assert (problem.line, problem.column) == (line, column), str(problem)
    assert case.message in problem.message
    assert problem.hint
    assert case.hint in problem.hint
    assert problem.path == "coven.yaml"


ALONE = [
    "E110",
    "E211",
    "E206",
    "E207",
    "E212",
    "E214",
    "E215",
    "E301",
    "E302",
    "E303",
    "E304",
    "E305",
    "E306",
    "E307",
    "E402",
]


@pytest.mark.parametrize("case", [case for case in CASES if case.code in ALONE], ids=lambda case: case.name)
def test_one_mistake_is_said_once(case: Case) -> None:
    text, _ = unmarked(edited(case.edits))
    assert [problem.code for problem in problems(text, case.environ)] in ([case.code], [case.code, "E201"])


def test_all_problems_are_collected_in_the_order_of_the_file() -> None:
    text = edited({"hearth": "h h", "leaf: console": "leaf: x", "- ChatAfferent": "- Wrong", "fs.write_text]": "gone]"})
    found = problems(text)
    assert [problem.code for problem in found] == ["E113", "E115", "E214", "E201", "E206"]


def test_a_problem_is_a_line_that_editors_can_follow() -> None:
    problem = problems(edited({"- ChatAfferent": "- ChatAferent"}))[0]
    assert str(problem) == (
        "coven.yaml:13:5: E206 no branch has a kind `ChatAferent`\n    did you mean `ChatAfferent`?"
    )


def test_two_branches_of_one_name() -> None:
    text, (line, column) = unmarked(edited({"  spellcasting:": f"  {MARK}chat:\n    leaf: discord\n  spellcasting:"}))
    (problem,) = problems(text)
    assert (problem.code, problem.line, problem.column) == ("E106", line, column)
    assert "two branches are called `chat`" in problem.message


# Several instances of a branch


def test_a_kind_that_stands_in_two_journals_must_be_qualified() -> None:
    found = problems(edited({"  spellcasting:": CRITICS + "  spellcasting:"}))
    ambiguous = [problem for problem in found if problem.code == "E209"]
    assert len(ambiguous) == 8
    assert "`critics.AgentPrompt`" in ambiguous[0].hint
    assert "`agents.AgentPrompt`" in ambiguous[0].hint


def test_each_instance_is_covered_by_itself() -> None:
    found = problems(edited({"  spellcasting:": CRITICS + "  spellcasting:"}, qualified()))
    assert {problem.code for problem in found} == {"E201", "E203"}
    assert {"critics" in problem.message for problem in found} == {True}


def test_two_agents_that_prompt_each_other_are_a_cycle() -> None:
    ring = "  - agents.AgentResponse -> critics.AgentPrompt\n  - critics.AgentResponse -> agents.AgentPrompt\n"
    text = edited(
        {
            "  spellcasting:": CRITICS + "  spellcasting:",
            "  - agents.AgentResponse -> ChatEfferentDraft\n": ring + CRITICS_SILENT,
            "  - ChatAfferent -> agents.AgentPrompt\n": "  - ChatAfferent -> agents.AgentPrompt\n",
        },
        qualified(),
    )
    cycles = [problem for problem in problems(text) if problem.code == "E212"]
    assert len(cycles) == 1
    assert "critics.AgentResponse -> agents.AgentPrompt -> agents.AgentResponse" in cycles[0].message
    declared = text.replace(
        "  - critics.AgentResponse -> agents.AgentPrompt\n",
        "  - route: critics.AgentResponse -> agents.AgentPrompt\n    max_hops: 6\n",
    )
    assert "E212" not in {problem.code for problem in problems(declared)}


def test_an_agent_that_serves_as_a_tool_is_no_cycle() -> None:
    text = edited(
        {
            "  spellcasting:": CRITICS + "  spellcasting:",
            "  - route: agents.AgentToolCall -> SpellInvocation\n    fault: AgentToolFault\n": (
                "  - route: agents.AgentToolCall -> critics.AgentPrompt\n"
                "    map: {sender: tool_name, text: string(arguments)}\n"
                "  - route: critics.AgentResponse -> agents.AgentToolResult\n"
                "    map: {correlation_id: record.correlation_id, result: text}\n"
            )
            + CRITICS_SILENT,
        },
        qualified(),
    )
    assert "E212" not in {problem.code for problem in problems(text)}


def test_the_walk_of_a_tool_call_is_no_cycle() -> None:
    assert "E212" not in {problem.code for problem in problems(RIGHT)}


TWO_CHATS = {
    "  agents:": "  log: {branch: chat, leaf: console}\n  agents:",
    "- ChatAfferent": "- log.ChatAfferent -> nowhere\n  - chat.ChatAfferent",
    "-> ChatChunk": "-> chat.ChatChunk",
    "-> ChatStreamCompleted": "-> chat.ChatStreamCompleted",
}


def test_a_chat_in_which_nothing_is_said_is_offered_no_answer_of_a_person() -> None:
    text = edited({**TWO_CHATS, "-> ChatEfferentDraft": "-> chat.ChatEfferentDraft", "AgentThought -> nowhere": ""})
    (problem,) = (problem for problem in problems(text) if problem.code == "E203")
    assert "`log.ChatEfferentDraft` has no source" in problem.message
    assert problem.hint == "add `- AgentThought -> log.ChatEfferentDraft`"


def test_a_chat_may_be_there_for_what_goes_wrong_alone() -> None:
    route = "- route: AgentResponse -> chat.ChatEfferentDraft\n    fault: log.ChatEfferentDraft"
    assert problems(edited({**TWO_CHATS, "- AgentResponse -> ChatEfferentDraft": route})) == ()


def test_a_fault_means_the_kind_of_its_own_source() -> None:
    text = edited(
        {
            "  spellcasting:": CRITICS + "  spellcasting:",
            "  - agents.AgentThought -> nowhere\n": "  - agents.AgentThought -> nowhere\n"
            + CRITICS_SILENT
            + "  - ChatAfferent -> critics.AgentPrompt\n",
            "  - ChatAfferent -> agents.AgentPrompt\n": "",
            "  - agents.AgentResponse -> ChatEfferentDraft\n": (
                "  - agents.AgentResponse -> nowhere\n"
                "  - critics.AgentResponse -> agents.AgentPrompt, ChatEfferentDraft\n"
            ),
        },
        qualified(),
    )
    (route,) = [route for route in configured(text).routes if route.fault_kind is not None]
    assert route.fault_instance == "agents"


# Kinds of the user


class Note(Entry, frozen=True, kw_only=True):
    text: str | None = None


def manifests_with(*kinds: Kind) -> Any:
    chat = MANIFESTS["chat"]
    return {**MANIFESTS, "chat": type(chat)(branch="chat", kinds=(*chat.kinds, *kinds))}


def test_a_kind_that_two_branches_declare() -> None:
    twin = type("AgentResponse", (Entry,), {"__annotations__": {"text": str}}, frozen=True, kw_only=True)
    found = problems(RIGHT, manifests=manifests_with(Kind(twin, Direction.INTERNAL)))
    (problem,) = [problem for problem in found if problem.code == "E210"]
    assert "declared twice, by chat and by agents" in problem.message
    assert (problem.line, problem.column) == (5, 3)


def test_a_kind_that_one_branch_declares_twice() -> None:
    found = problems(RIGHT, manifests=manifests_with(Kind(MANIFESTS["chat"].kinds[0].entry, Direction.INTERNAL)))
    assert "E210" in {problem.code for problem in found}


def test_a_field_that_may_be_nothing_does_not_fit_one_that_must_be_something() -> None:
    manifests = manifests_with(Kind(Note, Direction.PRODUCES))
    text = RIGHT + "  - Note -> AgentPrompt\n"
    found = problems(text, manifests=manifests)
    assert [problem.code for problem in found] == ["E301", "E302"]
    assert "`Note.text` is str | None, `AgentPrompt.text` wants str" in found[1].message
    mended = (
        RIGHT + "  - route: Note -> AgentPrompt\n    map: {sender: \"'notes'\", text: \"text == null ? '' : text\"}\n"
    )
    assert problems(mended, manifests=manifests) == ()


# Which warnings count, and where


def trifecta() -> str:
    return edited({"fs.write_text]": "http.fetch]", "    fs: {root: ./workspace}": "    fs:\n    http:"})


def test_the_trifecta_is_a_warning_and_strictly_an_error() -> None:
    assert checked(trifecta()).config is not None
    assert [problem.severity for problem in checked(trifecta()).warnings] == [Severity.WARNING]
    assert checked(trifecta(), strict=True).config is None
    assert [problem.code for problem in checked(trifecta(), strict=True).errors] == ["W501"]


@pytest.mark.parametrize("network", [True, False])
def test_what_a_gate_brings_may_depend_on_how_it_is_configured(network: bool) -> None:
    shell = f"    shell: {{allow: [curl], network: {str(network).lower()}}}\n"
    text = edited({"fs.write_text]": "shell.exec]", "    fs: {root": shell + "    fs: {root"})
    found = problems(text)
    assert [problem.code for problem in found] == (["W501"] if network else [])
    assert all("`approve: [shell.exec]`" in problem.hint for problem in found)


def test_an_approval_of_every_way_out_breaks_the_trifecta() -> None:
    text = trifecta().replace("      wards:", "      approve: [http.fetch]\n      wards:")
    asking = text.rstrip("\n") + "\n  - ApprovalAsked -> ChatQuestion\n  - ChatAnswer -> ApprovalGiven\n"
    assert problems(asking) == ()


def test_an_answer_to_a_question_must_come_home() -> None:
    text = trifecta().replace("      wards:", "      approve: [http.fetch]\n      wards:")
    found = problems(text.rstrip("\n") + "\n  - ApprovalAsked -> ChatQuestion\n")
    assert [problem.code for problem in found] == ["E211"]


def test_variables_of_branches_that_run_elsewhere_may_be_unset() -> None:
    text = edited({"leaf: console": "leaf: discord", "rehearsal": "anthropic\n    options: {api_key: '${MY_KEY}'}"})
    assert [problem.code for problem in problems(text)] == ["E402", "E402"]
    assert [problem.message for problem in problems(text, only=["agents"])] == [
        "the environment variable MY_KEY is not set"
    ]
    assert problems(text, only=["spellcasting", "covenant"]) == ()


def test_what_looks_like_a_secret_is_in_no_message() -> None:
    key = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz"
    for place in ("hearth", "console", "rehearsal", "fs.read_text", "- ChatAfferent", "{root: ./workspace}"):
        for problem in problems(edited({place: f"'{key}'" if "-" not in place[:1] else f"- {key}"})):
            assert key[:12] not in str(problem)


def test_checking_again_gives_the_same() -> None:
    text = edited({"- ChatAfferent": "- ChatAferent"})
    assert problems(text) == problems(text)


def test_every_code_is_tried() -> None:
    tried = {case.code for case in CASES} | {"E106", "E209", "E210"}
    elsewhere = {"E101", "E102", "E103", "E104", "E105", "E107", "E108", "E109", "E405", "E406", "E407"}
    assert tried | elsewhere == set(CODES)


# Approvals of routes

ASKED = "  - ApprovalAsked -> ChatQuestion\n  - ChatAnswer -> ApprovalGiven\n"
QUIET = {
    "  - AgentChunk -> ChatChunk\n": "  - AgentChunk -> nowhere\n",
    "  - AgentStreamCompleted -> ChatStreamCompleted\n": "  - AgentStreamCompleted -> nowhere\n",
}


def approved(options: str, text: str = RIGHT) -> str:
    """The right file, with an approval of the replies."""
    reply = "  - AgentResponse -> ChatEfferentDraft\n"
    return edited({reply: f"  - route: AgentResponse -> ChatEfferentDraft\n    approve: {options}\n", **QUIET}, text)


@pytest.mark.parametrize(
    ("options", "approval"),
    [
        ("true", Approval("chat")),
        ("{}", Approval("chat")),
        ("false", None),
        ("{chat: chat, approvers: [ada, bob]}", Approval("chat", None, ("ada", "bob"))),
        ("{conversation: '1234'}", Approval("chat", "1234")),
    ],
)
def test_a_route_says_who_must_approve(options: str, approval: Approval | None) -> None:
    (route,) = [route for route in configured(approved(options)).routes if route.source_kind == "AgentResponse"]
    assert route.approval == approval


def test_what_a_chat_says_is_asked_about_there() -> None:
    text = edited({"  agents:": "  board:\n    branch: chat\n  agents:"}, RIGHT)
    text = edited(
        {
            "  - ChatAfferent -> AgentPrompt\n": (
                "  - chat.ChatAfferent -> nowhere\n  - route: board.ChatAfferent -> AgentPrompt\n    approve: true\n"
            ),
            "-> ChatEfferentDraft": "-> board.ChatEfferentDraft, chat.ChatEfferentDraft",
            "-> ChatChunk": "-> chat.ChatChunk",
            "-> ChatStreamCompleted": "-> chat.ChatStreamCompleted",
        },
        text,
    )
    (route,) = [route for route in configured(text).routes if route.approval]
    assert route.approval == Approval("board")


def test_text_may_stream_to_a_chat_from_which_what_is_approved_does_not_come() -> None:
    condition = "    when: origin == 'x'\n"
    chunks = "  - route: AgentChunk -> ChatChunk\n    when: origin == 'y'\n"
    text = approved("true\n" + condition.rstrip("\n"))
    assert problems(text.replace("  - AgentChunk -> nowhere\n", chunks)) == ()
    found = problems(text.replace("  - AgentChunk -> nowhere\n", chunks.replace("'y'", "'x'")))
    assert [problem.code for problem in found] == ["E223"]


def test_where_a_person_says_yes_each_time_nothing_feeds_itself() -> None:
    ring = (
        "  - agents.AgentResponse -> critics.AgentPrompt\n"
        "  - route: critics.AgentResponse -> agents.AgentPrompt\n    approve: true\n"
    )
    text = edited(
        {
            "  spellcasting:": CRITICS + "  spellcasting:",
            "  - agents.AgentResponse -> ChatEfferentDraft\n": ring + CRITICS_SILENT,
        },
        qualified(),
    )
    assert "E212" not in {problem.code for problem in problems(text)}
    assert "E212" in {problem.code for problem in problems(text.replace("approve: true", "approve: false"))}


def test_no_route_has_the_name_of_what_another_one_lets_through() -> None:
    text = approved("true") + "  - route: ChatAnswer -> AgentPrompt\n    name: NAME\n"
    text += "    map: {sender: by, text: answer}\n"
    taken = text.replace("NAME", "agents.AgentResponse -> chat.ChatEfferentDraft (approved)")
    assert [problem.code for problem in problems(taken)] == ["E205"]
    assert problems(text.replace("NAME", "heard")) == ()


CALL_ROUTE = "  - route: AgentToolCall -> SpellInvocation\n    fault: AgentToolFault\n"


def circle_of(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The gates that wait for an approval in this file, and who may give it."""
    options: Any = configured(text).branches["agents"].options
    return options.circle.approve, options.circle.approvers


def test_an_approval_of_calls_is_one_of_the_gates_that_are_routed() -> None:
    text = edited({CALL_ROUTE: CALL_ROUTE + "    approve: {approvers: [ada]}\n"}, RIGHT + ASKED)
    assert circle_of(text) == (("fs.read_text", "fs.write_text"), ("ada",))
    assert [route.approval for route in configured(text).routes if route.source_kind == "AgentToolCall"] == [None]
    again = text.replace("      wards:", "      approve: [fs.write_text]\n      approvers: [ada]\n      wards:")
    assert circle_of(again) == (("fs.write_text", "fs.read_text"), ("ada",))
    assert circle_of(again.replace("{approvers: [ada]}", "true")) == (("fs.write_text", "fs.read_text"), ("ada",))


def test_an_approval_of_calls_needs_a_way_for_the_question() -> None:
    found = problems(edited({CALL_ROUTE: CALL_ROUTE + "    approve: true\n"}))
    assert [problem.code for problem in found] == ["E218"]
    assert "`- ApprovalAsked -> ChatQuestion`" in found[0].hint.replace("add ", "")


def test_an_approval_of_calls_breaks_the_trifecta() -> None:
    text = edited({CALL_ROUTE: CALL_ROUTE + "    approve: true\n"}, trifecta() + ASKED)
    assert problems(text) == ()
