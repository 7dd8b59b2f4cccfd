"""The picture of a covenant."""

from __future__ import annotations

from pathlib import Path

from covenants import mermaid
from tests.covenants.configs import RIGHT, configured, edited
from tests.covenants.test_transform import LONG_REPLY, REPLY, VIA


def test_the_picture_has_a_box_for_each_branch_and_an_arrow_for_each_route() -> None:
    assert mermaid(configured()) == (
        "flowchart LR\n"
        '  subgraph b_chat["chat"]\n'
        '    b_chat_ChatAfferent["ChatAfferent"]\n'
        '    b_chat_ChatEfferentDraft["ChatEfferentDraft"]\n'
        '    b_chat_ChatChunk(["ChatChunk"])\n'
        '    b_chat_ChatStreamCompleted(["ChatStreamCompleted"])\n'
        "  end\n"
        '  subgraph b_agents["agents"]\n'
        '    b_agents_AgentPrompt["AgentPrompt"]\n'
        '    b_agents_AgentResponse["AgentResponse"]\n'
        '    b_agents_AgentToolCall["AgentToolCall"]\n'
        '    b_agents_AgentToolFault["AgentToolFault"]\n'
        '    b_agents_AgentToolResult["AgentToolResult"]\n'
        '    b_agents_AgentChunk(["AgentChunk"])\n'
        '    b_agents_AgentStreamCompleted(["AgentStreamCompleted"])\n'
        '    b_agents_AgentThought["AgentThought"]\n'
        "  end\n"
        '  subgraph b_spellcasting["spellcasting"]\n'
        '    b_spellcasting_SpellInvocation["SpellInvocation"]\n'
        '    b_spellcasting_SpellResult["SpellResult"]\n'
        '    b_spellcasting_SpellFault["SpellFault"]\n'
        "  end\n"
        '  nowhere(("nowhere"))\n'
        "  b_chat_ChatAfferent --> b_agents_AgentPrompt\n"
        "  b_agents_AgentResponse --> b_chat_ChatEfferentDraft\n"
        "  b_agents_AgentToolCall --> b_spellcasting_SpellInvocation\n"
        '  b_agents_AgentToolCall -.->|"fault"| b_agents_AgentToolFault\n'
        "  b_spellcasting_SpellResult --> b_agents_AgentToolResult\n"
        "  b_spellcasting_SpellFault --> b_agents_AgentToolFault\n"
        "  b_agents_AgentChunk --> b_chat_ChatChunk\n"
        "  b_agents_AgentStreamCompleted --> b_chat_ChatStreamCompleted\n"
        "  b_agents_AgentThought -.-> nowhere\n"
    )


def test_conditions_and_functions_stand_on_the_arrow(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(VIA)
    text = edited({REPLY: LONG_REPLY + "    when: origin == 'a\"|b'\n    via: mine.py:shout\n"})
    picture = mermaid(configured(text, base=tmp_path))
    assert '-->|"when origin == #39;a#34;#124;b#39;, via mine.py:shout"| b_chat_ChatEfferentDraft' in picture


def test_an_instance_says_what_it_is() -> None:
    text = edited({"  chat:": "  my-end:\n    branch: chat"}, RIGHT)
    assert 'subgraph b_my_2d_end["my-end (chat)"]' in mermaid(configured(text))


def test_who_must_approve_stands_on_the_arrow() -> None:
    call = "    fault: AgentToolFault\n"
    text = edited(
        {
            REPLY: LONG_REPLY + "    approve: {approvers: [ada, bob]}\n",
            call: call + "    approve: true\n",
            "AgentChunk -> ChatChunk": "AgentChunk -> nowhere",
        },
        RIGHT + "  - ApprovalAsked -> ChatQuestion\n  - ChatAnswer -> ApprovalGiven\n",
    )
    picture = mermaid(configured(text))
    assert 'b_agents_AgentResponse -->|"if approved in chat by ada or bob"| b_chat_ChatEfferentDraft' in picture
    assert '-->|"if approved: fs.read_text, fs.write_text"| b_spellcasting_SpellInvocation' in picture
