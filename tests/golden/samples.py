"""One sample of every kind that is stored. `python -m tests.golden.samples` writes those whose version is new."""

from __future__ import annotations

from pathlib import Path

from branches.agents import AGENTS
from branches.agents.crystal import Sampling, ToolCall, Usage
from branches.agents.entries import (
    AgentCancel,
    AgentChunk,
    AgentFork,
    AgentPrompt,
    AgentResponse,
    AgentStreamCompleted,
    AgentThought,
    AgentToolCall,
    AgentToolFault,
    AgentToolResult,
    ApprovalAsked,
    ApprovalGiven,
    LastTurn,
    Utterance,
)
from branches.agents.folding import Folding
from branches.agents.gates import GateDefinition
from branches.agents.internal import (
    AgentsSettled,
    AgentUtterance,
    CodeReturned,
    ContextFolded,
    CrystalCalled,
    CrystalFailed,
    CrystalRetried,
    EntityCast,
    EntityForked,
    EntityReturned,
    EntitySummoned,
    GateCalled,
    GateReturned,
    Refusal,
    SandboxKept,
    TurnRewarded,
)
from branches.agents.wards import Wards
from branches.attachment import Attachment
from branches.chat import CHAT
from branches.chat.entries import (
    ChatActivity,
    ChatAfferent,
    ChatAnswer,
    ChatBegunAnew,
    ChatChunk,
    ChatDelivered,
    ChatEfferent,
    ChatEfferentDraft,
    ChatForked,
    ChatQuestion,
    ChatSettled,
    ChatStreamCompleted,
    ChatUndelivered,
)
from branches.spellcasting import SPELLCASTING
from branches.spellcasting.entries import SpellFault, SpellInvocation, SpellResult, SpellsSettled, SpellStarted
from coven.lifecycle import ServiceChanged, State, system_registry
from covenants.applied import Beginning, CovenantApplied
from covenants.dead_letters import DeadLetter, DeadLetterRedriven, dead_letter_registry
from journals import Entry, EntryRegistry
from policies import run_registry
from policies._entries import (
    AttemptBegan,
    AttemptFailed,
    EventAwaited,
    EventReceived,
    EventSignalled,
    PolicyCalled,
    PolicyReturned,
    RunStarted,
    SeedStep,
    StepData,
    TimerFired,
    TimerSet,
    VersionMarked,
)

FOLDER = Path(__file__).parent

_ADDED = {
    "AgentChunk": ("thought",),
    "AgentResponse": ("attachments", "last.finish"),
    "AgentToolCall": ("said.finish",),
    "AgentUtterance": ("finish",),
    "EntityReturned": ("last.finish",),
    "AgentThought": ("stream",),
    "ChatActivity": ("stream",),
    "ChatChunk": ("thought",),
}
"""What kinds got beside attachments after they were released."""

IMAGE = Attachment("chart.png", "image/png", b"\x89PNG\r\n\x1a\n\x00")

SAMPLES: dict[str, tuple[Entry, ...]] = {
    "chat": (
        ChatAfferent(sender="ada", text="what files are here?", message_id="m-1"),
        ChatEfferentDraft(text="two files", sender="agents"),
        ChatQuestion(correlation_id="a-1", question="May I?", choices=("yes", "no"), approvers=("ada",)),
        ChatAnswer(correlation_id="a-1", answer="yes", by="ada"),
        ChatActivity(activity="call", text='{"path":"a"}', tool_name="fs.read_text", correlation_id="c-1"),
        ChatChunk(stream="u-1", index=0, text="two "),
        ChatStreamCompleted(stream="u-1"),
        ChatEfferent(text="two files", sender="agents", question="a-1", choices=("yes", "no")),
        ChatDelivered(efferent="e-1", receipt="r-1"),
        ChatUndelivered(efferent="e-2", error="the channel is gone"),
        ChatBegunAnew(session="room~1a2b3c4d"),
        ChatForked(parent="room", without=("m-3", "m-4")),
        ChatSettled(position=42),
        ChatAfferent(sender="ada", text="what is this?", attachments=(IMAGE,)),
        ChatEfferentDraft(text="a chart", attachments=(IMAGE,)),
        ChatEfferent(text="a chart", attachments=(IMAGE,)),
        ChatActivity(activity="thought", text="I should look", stream="u-1.thought"),
        ChatChunk(stream="u-1.thought", index=0, text="I ", thought=True),
    ),
    "agents": (
        AgentPrompt(sender="ada", text="what files are here?"),
        AgentFork(parent="room", without=("m-3", "m-4")),
        AgentCancel(prompt="p-1"),
        AgentThought(sender="agents", text="I should look"),
        AgentResponse(
            sender="agents",
            text="two files",
            ending="truncated",
            ward="max_turns",
            answer={"files": 2},
            last=LastTurn(turn=2, usage=Usage(prompt=10, completion=5), duration_ms=12.5),
        ),
        AgentChunk(stream="u-1", index=0, text="two "),
        AgentStreamCompleted(stream="u-1"),
        AgentToolCall(
            correlation_id="c-1",
            tool_name="fs.list_dir",
            arguments={"path": "."},
            scope="run-1",
            said=Utterance(
                turn=1,
                content="I look.",
                tool_calls=(ToolCall("t1", "fs.list_dir", '{"path":"."}'),),
                usage=Usage(prompt=10, completion=5, cached=1),
                duration_ms=12.5,
            ),
        ),
        ApprovalAsked(
            correlation_id="a-1",
            question="May I call pay?",
            gate="pay",
            arguments={"amount": 3},
            call="c-9",
            approvers=("ada",),
            choices=("yes", "no"),
            scope="run-1",
        ),
        AgentPrompt(sender="ada", text="what is this?", attachments=(IMAGE,)),
        AgentToolResult(correlation_id="c-1", result="attached", attachments=(IMAGE,)),
        AgentResponse(sender="agents", text="a chart", attachments=(IMAGE,)),
        AgentThought(sender="agents", text="I should look", stream="u-1.thought"),
        AgentChunk(stream="u-1.thought", index=0, text="I ", thought=True),
        ApprovalGiven(correlation_id="a-1", answer="yes", by="ada"),
        AgentToolResult(correlation_id="c-1", result={"entries": ["a.txt"]}),
        AgentToolFault(correlation_id="c-2", error="took too long", code="timeout"),
        EntityCast(
            entity="entity-1",
            system_prompt="You are the keeper of this workspace.",
            require_done_tool=False,
            tool_choice="auto",
            cantrip="digest",
            gates=(GateDefinition("done", "Finish.", {"type": "object"}, ephemeral=True),),
            wards=Wards(max_turns=40, narrow={"read": {"path": ("data/*",)}}),
            sampling=Sampling(temperature=0.7, stop=("END",)),
            medium="javascript",
            folding=Folding(strategy="summary", trigger_after_turns=20),
            independent=True,
            approve=("pay",),
            approvers=("ada",),
        ),
        EntityForked(session="s-1", run="run-1", turn=3, position=17, crystal="small"),
        EntitySummoned(
            scope="run-1",
            entity="entity-2",
            intent="count them",
            context={"files": ["a.txt"]},
            system_prompt="You count.",
            gates=("done",),
            crystal="small",
            max_depth=0,
        ),
        EntityReturned(
            text="one", answer=1, ending="terminated", last=LastTurn(turn=1, usage=Usage(prompt=3), duration_ms=2.0)
        ),
        CrystalCalled(run="run-1", turn=1, attempt=1, context="digest", messages=2, reserved=4096, summarises=True),
        CrystalRetried(run="run-1", turn=1, attempt=1, error="slow down", retry_at=1.5),
        AgentUtterance(
            run="run-1",
            turn=1,
            content=None,
            tool_calls=(ToolCall("t1", "fs.list_dir", '{"path":"."}'),),
            usage=Usage(prompt=10, completion=5, cached=1),
            duration_ms=12.5,
        ),
        AgentUtterance(
            run="run-1",
            turn=1,
            content="Once upon a",
            tool_calls=(),
            usage=Usage(prompt=10, completion=5),
            duration_ms=12.5,
            finish="length",
        ),
        AgentToolCall(
            correlation_id="c-1",
            tool_name="fs.list_dir",
            arguments={"path": "."},
            said=Utterance(
                turn=1,
                content=None,
                tool_calls=(ToolCall("t1", "fs.list_dir", ""),),
                usage=Usage(prompt=10, completion=5),
                duration_ms=12.5,
                finish="tool_calls",
            ),
        ),
        AgentResponse(
            sender="agents",
            text="Once upon a (cut off)",
            answer="Once upon a",
            last=LastTurn(turn=1, usage=Usage(prompt=3), duration_ms=2.0, finish="length"),
        ),
        EntityReturned(text="two", last=LastTurn(turn=1, usage=Usage(prompt=3), duration_ms=2.0, finish="stop")),
        CrystalFailed(run="run-1", turn=1, error="overloaded", code="unavailable", duration_ms=3.0),
        GateCalled(scope="run-1", gate="echo", arguments={"text": "hi"}, attempt=2, denied=True),
        GateReturned(result="hi"),
        CodeReturned(
            scope="run-1",
            output="hello\n",
            value=42,
            error="Error: no",
            ending="raised",
            refusals=(Refusal(0, "fetch", {"url": "x"}, "gate not available"),),
        ),
        SandboxKept(run="run-1", after="call-4", medium="javascript", variables=b"variables"),
        ContextFolded(run="run-1", turn=9, through=5, kept=3, summary="It listed files.", usage=Usage(prompt=9)),
        TurnRewarded(turn="turn-1", reward=1.0, by="ada"),
        AgentsSettled(position=42),
    ),
    "spellcasting": (
        SpellInvocation(
            correlation_id="c-1", spell="fs.list_dir", arguments={"path": "."}, grants=("net:example.org",)
        ),
        SpellStarted(correlation_id="c-1", spell="fs.list_dir"),
        SpellResult(correlation_id="c-1", result="attached", attachments=(IMAGE,)),
        SpellResult(correlation_id="c-1", result={"entries": ["a.txt"]}),
        SpellFault(correlation_id="c-2", error="denied", code="denied"),
        SpellsSettled(position=42),
    ),
    "coven": (
        ServiceChanged(service="agents", state=State.FAILED, host="h-1", reason="a bug", failures=2),
        CovenantApplied(
            routes={
                "chat.ChatAfferent -> agents.AgentPrompt": Beginning(
                    source="chat", target="agents", fault=None, start=0
                )
            },
            incarnations={"chat": "20261121"},
        ),
    ),
    "runs": (
        RunStarted(
            policy="search_agent",
            payload={"question": "what is new?"},
            actions=("llm", "web_search"),
            ledger=(SeedStep("s-1", "user", "text", {"text": "hello"}),),
        ),
        PolicyCalled(
            call="c-1",
            scope="r-1",
            policy="llm",
            payload={"model": "small"},
            actions=("web_search",),
            decorators=("loop_wrapper", "invoke_action"),
            seed="digest",
        ),
        PolicyReturned(call="c-1", steps=(StepData("assistant", "text", {"text": "hello"}),)),
        AttemptFailed(call="c-1", attempt=1, error="ConnectionError", message="reset by peer", retry_at=1000000.5),
        AttemptBegan(call="c-1", attempt=2),
        TimerSet(call="c-2", scope="r-1", due=1000060.0, seconds=60.0),
        TimerFired(call="c-2"),
        EventAwaited(call="c-3", scope="r-1", event="approval", timeout_s=3600.0, due=1003600.0),
        EventSignalled(event="approval", payload={"approved": True}),
        EventReceived(call="c-3", signal="s-2"),
        VersionMarked(name="two searches", version=2),
    ),
    "dead-letters": (
        DeadLetter(route="r", journal="chat", position=7, source_kind="ChatAfferent", code="via", reason="raised"),
        DeadLetterRedriven(dead_letter="d-1", effects=1),
    ),
}


def registries() -> dict[str, EntryRegistry]:
    """Every registry, the short-lived kinds beside the others."""
    manifests = {"chat": CHAT, "agents": AGENTS, "spellcasting": SPELLCASTING}
    branches = {name: EntryRegistry(kind.entry for kind in manifest.kinds) for name, manifest in manifests.items()}
    return {**branches, "coven": system_registry(), "dead-letters": dead_letter_registry(), "runs": run_registry()}


def path_of(journal: str, sample: Entry) -> Path:
    """Where the golden file of a sample stands: each kind has one a version, and one with what was added to that."""
    names = _ADDED.get(sample.kind(), ("attachments",))
    added = "".join(f"+{name.rpartition('.')[2]}" for name in names if _has(sample, name))
    return FOLDER / journal / f"{sample.kind()}{added}.v{sample.schema_version}.json"


def _has(sample: object, name: str) -> bool:
    """Whether a sample has something in a field, or in one of a struct in it."""
    for each in name.split("."):
        sample = getattr(sample, each, None)
    return bool(sample)


def main() -> None:
    """Write the files of new versions; those of released ones are never touched."""
    for journal, samples in SAMPLES.items():
        for sample in samples:
            path = path_of(journal, sample)
            if not path.exists():
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(registries()[journal].encode(sample) + b"\n")
                print(f"wrote {path.relative_to(FOLDER)}")


if __name__ == "__main__":
    main()
