"""What is sent to Slack, what is read of it, and what is recognised of an earlier life."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaves.chats.slack.incoming import Command, Envelope, Message
from leaves.chats.slack.mrkdwn import escape, mrkdwn, readable, unescape
from leaves.chats.slack.outgoing import LIMIT, Mark, Part, answered, asking, mark_of, parts, pressed, unfinished
from leaves.chats.slack.recovery import Ours, before


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("plain", "plain"),
        ("**bold** and __bold__", "*bold* and *bold*"),
        ("*italic* and _italic_", "_italic_ and _italic_"),
        ("**bold *and italic***", "*bold _and italic_*"),
        ("~~gone~~", "~gone~"),
        ("# Title\ntext\n### **Part** 2 ##", "*Title*\ntext\n*Part 2*"),
        ("* one\n  + two\n- three", "• one\n  • two\n- three"),
        ("2 * 3 * 4 and a*b*c", "2 * 3 * 4 and a*b*c"),
        ("[page](https://a.b/c?d=1&e=2)", "<https://a.b/c?d=1&amp;e=2|page>"),
        ("[x](!channel) [y](javascript:z)", "[x](!channel) [y](javascript:z)"),
        ("<!channel> <@U1> a & b", "&lt;!channel&gt; &lt;@U1&gt; a &amp; b"),
        ("`**code** <x>` **not**", "`**code** &lt;x&gt;` *not*"),
        ("```python\n# no title\na < b ** c\n```\n**x**", "```\n# no title\na &lt; b ** c\n```\n*x*"),
        ("````\n```\n````", "```\n```\n```"),
    ],
)
def test_markdown_in_slacks_notation(markdown: str, shown: str):
    assert mrkdwn(markdown) == shown


@given(st.text(st.sampled_from("ab<>&|@!#*_~`[]()\n -:/."), max_size=300))
def test_whatever_the_answer_it_mentions_nobody_and_calls_nobody(text: str):
    for special in re.findall(r"<[^>]*", mrkdwn(text)):
        assert re.match(r"<(https?://|mailto:)", special)


@given(st.text())
def test_what_is_escaped_is_read_as_it_was(text: str):
    assert unescape(escape(text)) == text
    assert readable(escape(text), {}) == text


@given(st.text(st.sampled_from("ab. \n`*🙂&<["), max_size=9000))
def test_whatever_the_answer_slack_takes_it(text: str):
    messages = parts(text)
    assert messages
    assert all(0 < len(message.text) <= LIMIT for message in messages)
    assert all(0 < len(message) <= LIMIT for message in unfinished(text))


@given(st.text(min_size=1, max_size=9000), st.lists(st.text(max_size=90), min_size=1, max_size=25))
def test_whatever_is_asked_slack_takes_it(text: str, choices: list[str]):
    messages = asking(text, "q", choices)
    assert [block["type"] for message in messages for block in message.blocks] == ["section"] * len(messages) + [
        "actions"
    ]
    assert all(0 < len(message.text) <= LIMIT for message in messages)
    buttons = messages[-1].blocks[-1]["elements"]
    assert [pressed(button["action_id"]) for button in buttons] == list(range(len(choices)))
    assert all(0 < len(button["text"]["text"]) <= 75 for button in buttons)


def test_more_choices_than_slack_has_buttons_for_are_answered_in_words():
    assert asking("Which?", "q", tuple("abcdefghijklmnopqrstuvwxyz")) == [Part("Which?")]
    assert pressed("coven:x") is pressed("other:1") is pressed("coven") is None


def test_a_question_that_is_answered_keeps_its_text_and_loses_its_buttons():
    (asked,) = asking("May I?", "q", ("yes",))
    shown = answered(asked.blocks, "*Ada*: yes")
    assert [block["type"] for block in shown.blocks] == ["section", "context"]


def test_marks_come_back_from_metadata_and_others_are_none():
    mark = Mark("answer", "prompt", 2)
    assert mark_of(mark.payload()) == mark
    assert mark_of(None) is mark_of({"event_type": "task", "event_payload": {"id": 1}}) is None


def test_what_an_earlier_life_has_sent_is_recognised():
    found = [
        Ours("3.0", Mark("a", "p", 1)),
        Ours("2.0", Mark("a", "p", 0)),
        Ours("5.0", Mark("", "p", 1)),
        Ours("4.0", Mark("", "p", 0)),
        Ours("6.0", Mark("", "other", 0)),
        Ours("7.0", Mark("other", "p", 0)),
        Ours("8.0", Mark("a", "p", 0)),
    ]
    assert before(found, "a", "p") == ({0: "2.0", 1: "3.0"}, ["4.0", "5.0"])


def test_what_slack_sends_is_read_and_what_nobody_needs_is_left():
    event = {"type": "message", "channel": "C1", "ts": "1.2", "user": "U1", "text": None, "blocks": [], "files": None}
    read = Envelope("events_api", "e", {"event": event}).read()
    assert isinstance(read, Message)
    assert (read.id, read.by_a_person) == ("C1:1.2", True)
    assert Envelope("interactive", "e", {"type": "view_submission"}).read() is None
    assert Command("/hearth-ask", "C1", "U1", "t").name == Command("/ask", "C1", "U1", "t").name == "ask"
