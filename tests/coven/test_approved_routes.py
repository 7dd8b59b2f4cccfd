"""A route that needs an approval, in a coven that runs in a terminal: it is killed, and goes on asking."""

from __future__ import annotations

import os
import signal

import pytest

CONFIG = """\
coven: hearth
nats: embedded
branches:
  chat: {leaf: console}
  agents:
    crystal: rehearsal
    circle:
      gates: [done, fs.read_text, fs.write_text]
      wards: [{max_turns: 5}]
  spellcasting:
    fs: {root: ./workspace}
covenant:
  - ChatAfferent -> AgentPrompt
  - route: AgentResponse -> ChatEfferentDraft
    approve: {approvers: [you]}
  - route: AgentToolCall -> SpellInvocation
    fault: AgentToolFault
  - SpellResult -> AgentToolResult
  - SpellFault -> AgentToolFault
  - AgentChunk -> nowhere
  - AgentStreamCompleted -> nowhere
  - AgentThought -> nowhere
"""
FAULT = "    fault: AgentToolFault\n"
BOTH = CONFIG.replace(FAULT, FAULT + "    approve: true\n")
ASKED = "  - ApprovalAsked -> ChatQuestion\n  - ChatAnswer -> ApprovalGiven\n"


def kill(process, project) -> None:
    """The process and its server are gone before either can say a word."""
    pid = int((project / ".coven" / "nats.pid").read_text())
    process.signal(signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    assert process.end(close=False).code == -signal.SIGKILL


def read(coven, journal: str, kind: str):
    return coven("journal", "read", journal, "-k", kind, "-o", "json").lines


@pytest.mark.parametrize("answer", ["yes", "no"])
def test_an_answer_waits_for_a_person_over_a_kill_and_is_sent_once_or_never(project, start, coven, answer):
    (project / "coven.yaml").write_text(CONFIG)
    first = start("run")
    first.type("read notes.md")
    asked = first.wait_for("May I send to chat: ChatEfferentDraft")
    assert "(yes/no)" in asked
    kill(first, project)

    second = start("run")
    second.wait_for("May I send to chat: ChatEfferentDraft")
    second.type(answer)
    second.type("read notes.md")
    again = second.wait_for("May I send to chat: ChatEfferentDraft")
    assert again == asked
    second.type("yes")
    drafts = 2 if answer == "yes" else 1
    second.wait_for("- Ask the keeper to write a list.")
    assert second.end().code == 0

    assert len(read(coven, "chat", "ChatQuestion")) == 2
    sent = read(coven, "chat", "ChatEfferentDraft")
    assert len(sent) == drafts
    said = {line["id"]: line["correlation_id"] for line in read(coven, "chat", "ChatAnswer")}
    assert len(said) == 2
    for line in sent:
        assert line["causation_id"] in said
        assert line["correlation_id"] in {prompt["id"] for prompt in read(coven, "chat", "ChatAfferent")}


def test_a_call_and_the_answer_are_approved_each_by_its_own_question(project, start, coven):
    (project / "coven.yaml").write_text(BOTH + ASKED)
    written = project / "workspace" / "list.txt"
    process = start("run")
    process.type("write 'milk' to list.txt")
    process.wait_for("May I call fs.write_text")
    assert not written.exists()
    process.type("yes")
    process.wait_for("May I send to chat: ChatEfferentDraft")
    assert written.read_text() == "milk"
    process.type("yes")
    process.wait_for("list.txt")
    assert process.end().code == 0
    of_call, of_answer = (line["entry"]["correlation_id"] for line in read(coven, "chat", "ChatAnswer"))
    (given,) = read(coven, "agents", "ApprovalGiven")
    assert given["entry"]["correlation_id"] == of_call != of_answer
    assert len(read(coven, "chat", "ChatEfferentDraft")) == 1
    asked = [line["entry"] for line in read(coven, "chat", "ChatEfferent") if "question" in line["entry"]]
    assert [entry.get("sender") for entry in asked] == ["agents", None], "who asks is said, where it is an entity"
    assert coven("dead-letters", "list", "-o", "json").out.strip() in ("", "[]")
