"""The loop: how turns go, what the crystal is shown, and how an episode ends."""

from __future__ import annotations

import json

import pytest

from branches.agents import AgentThought, AgentToolCall, AgentToolFault
from branches.agents.context import NUDGE
from branches.agents.crystal import CrystalError, CrystalResponse, Message, ToolCall, Usage
from branches.agents.internal import CrystalCalled, CrystalFailed, CrystalRetried
from branches.agents.naming import gate_call_id, run_id
from branches.agents.utterances import utterance_in
from coven.testing import ScriptedCrystal, calls, finishes, says
from journals import Store
from tests.branches.agents.bench import Bench, options


def shown(crystal: ScriptedCrystal, request: int = -1) -> list[tuple[str, str | None]]:
    return [(message.role, message.content) for message in crystal.requests[request].messages]


async def test_text_ends_an_episode_where_done_is_not_required() -> None:
    bench, crystal = Bench(), ScriptedCrystal([says("The answer is 42.")])
    async with bench.serve(crystal):
        response = await bench.talk("what is the answer?")
    assert (response.text, response.ending, response.ward, response.sender) == (
        "The answer is 42.",
        "terminated",
        None,
        "agents",
    )
    assert shown(crystal) == [("user", "what is the answer?")]
    assert await bench.kinds() == ["AgentPrompt", "EntityCast", "CrystalCalled", "AgentResponse"]


async def test_a_response_goes_home_with_the_correlation_and_origin_of_its_prompt() -> None:
    bench = Bench()
    async with bench.serve(ScriptedCrystal([finishes("ok")])):
        prompt = await bench.ask("go")
        await bench.response(prompt)
    (response,) = await bench.records("AgentResponse")
    assert (response.correlation_id, response.origin, response.causation_id) == (
        prompt.correlation_id,
        "chat",
        prompt.id,
    )
    assert response.lane == "out"


async def test_the_system_prompt_comes_first_in_every_request_and_the_gates_travel_as_tools() -> None:
    bench, crystal = Bench(), ScriptedCrystal([calls(("echo", {"text": "a"})), finishes("ok")])
    async with bench.serve(crystal, options(system_prompt="You are a test.", tool_choice="required")):
        await bench.talk("go")
    for request in crystal.requests:
        assert request.messages[0] == Message("system", "You are a test.")
        assert request.messages[1] == Message("user", "go")
        assert [gate.name for gate in request.tools] == ["done", "echo", "break", "silent"]
        assert request.tool_choice == "required"


async def test_a_turn_with_a_call_shows_the_crystal_what_it_gave() -> None:
    call = calls(("echo", {"text": "hi"}), text="I look.")
    bench, crystal = Bench(), ScriptedCrystal([call, finishes("ok")])
    async with bench.serve(crystal):
        assert (await bench.talk("go")).text == "ok"
    assert list(crystal.requests[1].messages) == [
        Message("user", "go"),
        Message("assistant", "I look.", call.tool_calls),
        Message("tool", "hi", tool_call_id="call_1"),
    ]
    assert await bench.kinds() == [
        "AgentPrompt",
        "EntityCast",
        "CrystalCalled",
        "AgentToolCall",
        "AgentToolResult",
        "CrystalCalled",
        "AgentUtterance",
        "AgentResponse",
    ]


async def test_a_gate_call_is_correlated_by_its_own_id_and_the_provider_keeps_its_own() -> None:
    """The provider repeats its ids in every turn; ours differ."""
    bench = Bench()
    crystal = ScriptedCrystal([calls(("echo", {"text": "a"})), calls(("echo", {"text": "b"})), finishes("ok")])
    async with bench.serve(crystal):
        prompt = await bench.ask("go")
        await bench.response(prompt)
    tool_calls = await bench.records("AgentToolCall")
    run = run_id(prompt.id)
    assert [record.correlation_id for record in tool_calls] == [gate_call_id(run, 1, 0), gate_call_id(run, 2, 0)]
    for record in tool_calls:
        assert isinstance(record.entry, AgentToolCall)
        assert record.entry.correlation_id == record.correlation_id
        assert (record.origin, record.causation_id) == ("chat", prompt.id)
    utterances = [said for record in await bench.records() if (said := utterance_in(record)) is not None]
    assert [u.tool_calls[0].id for u in utterances] == ["call_1", "call_1", "call_1"]


async def test_calls_of_one_utterance_run_in_order_each_after_the_outcome_of_the_one_before() -> None:
    bench = Bench()
    crystal = ScriptedCrystal([calls(("echo", {"text": "1"}), ("break", {}), ("echo", {"text": "3"})), finishes("ok")])
    async with bench.serve(crystal):
        await bench.talk("go")
    assert (await bench.kinds())[3:9] == [
        "AgentToolCall",
        "AgentToolResult",
        "AgentToolCall",
        "AgentToolFault",
        "AgentToolCall",
        "AgentToolResult",
    ]
    assert shown(crystal)[2:] == [("tool", "1"), ("tool", "Error: failed: it is broken"), ("tool", "3")]
    assert [message.is_error for message in crystal.requests[1].messages[2:]] == [False, True, False]


async def test_done_stops_at_once_and_what_follows_is_skipped() -> None:
    bench = Bench()
    call = calls(("echo", {"text": "before"}), ("done", {"answer": "finished"}), ("echo", {"text": "after"}))
    async with bench.serve(ScriptedCrystal([call])):
        assert (await bench.talk("go")).text == "finished"
    (made,) = await bench.records("AgentToolCall")
    assert isinstance(made.entry, AgentToolCall)
    assert made.entry.arguments == {"text": "before"}


async def test_done_without_its_answer_is_an_error_and_the_loop_goes_on() -> None:
    bench, crystal = Bench(), ScriptedCrystal([calls(("done", {})), finishes("now")])
    async with bench.serve(crystal):
        assert (await bench.talk("go")).text == "now"
    assert shown(crystal)[-1] == ("tool", "Error: bad_arguments: `done` needs `answer`")


async def test_gates_and_arguments_that_cannot_be_read_never_leave_the_circle() -> None:
    bench = Bench()
    crystal = ScriptedCrystal([calls(("nope", {}), ("echo", "{not json"), ("echo", "[1]")), finishes("ok")])
    async with bench.serve(crystal):
        assert (await bench.talk("go")).text == "ok"
    assert "AgentToolCall" not in await bench.kinds()
    results = [content or "" for role, content in shown(crystal) if role == "tool"]
    assert [result.split(":")[1].strip() for result in results] == ["unknown_gate", "bad_arguments", "bad_arguments"]


async def test_text_alone_goes_on_where_done_is_required_and_roles_alternate() -> None:
    bench, crystal = Bench(), ScriptedCrystal([says("thinking"), says("still thinking"), finishes("42")])
    async with bench.serve(crystal, options(require_done_tool=True)):
        response = await bench.talk("go")
    assert response.text == "42"
    assert shown(crystal) == [
        ("user", "go"),
        ("assistant", "thinking"),
        ("user", NUDGE),
        ("assistant", "still thinking"),
        ("user", NUDGE),
    ]


async def test_a_ward_truncates_and_says_what_was_done() -> None:
    bench = Bench()
    script = [calls(("echo", {"text": "1"})), calls(("break", {}), ("echo", {"text": "2"})), says("never asked")]
    crystal = ScriptedCrystal(script)
    async with bench.serve(crystal, options(max_turns=2)):
        response = await bench.talk("count")
    assert (response.ending, response.ward) == ("truncated", "max_turns")
    assert response.text == (
        "I was stopped after 2 turns, the limit here. Gates called until then: echo (2), break (1). "
        "1 of them failed, the last one so: failed: it is broken"
    )
    assert len(crystal.requests) == 2


async def test_termination_wins_over_truncation_in_the_same_turn() -> None:
    bench = Bench()
    async with bench.serve(ScriptedCrystal([finishes("just in time")]), options(max_turns=1)):
        assert (await bench.talk("go")).ending == "terminated"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (CrystalResponse(), "crystal returned neither content nor tool_calls"),
        (CrystalResponse(tool_calls=(ToolCall("a", "echo"), ToolCall("a", "echo"))), "duplicate tool call ID: 'a'"),
        (CrystalError("unavailable", "the provider is down \ud800"), "the provider is down ?"),
        (says("\udfff"), "crystal returned text that is not valid Unicode (a lone surrogate)"),
    ],
)
async def test_a_crystal_that_fails_ends_the_episode_as_failed(
    answer: CrystalResponse | CrystalError, text: str
) -> None:
    bench, crystal = Bench(), ScriptedCrystal([answer, says("hello again")])
    async with bench.serve(crystal):
        response = await bench.talk("go")
        assert (response.ending, response.text) == ("failed", f"I could not go on: {text}")
        assert (await bench.talk("still there?")).text == "hello again"
    (failed,) = await bench.records("CrystalFailed")
    assert isinstance(failed.entry, CrystalFailed)
    assert failed.entry.error == text


async def test_thinking_is_told_and_recorded_with_its_utterance() -> None:
    bench = Bench()
    async with bench.serve(ScriptedCrystal([says("Yes.", thinking="Let me see.")])):
        await bench.talk("go")
    (thought,) = await bench.records("AgentThought")
    assert thought.entry == AgentThought(sender="agents", text="Let me see.")
    (response,) = await bench.records("AgentResponse")
    assert thought.position == response.position - 1
    assert thought.causation_id == response.causation_id


async def test_text_that_ends_an_episode_is_recorded_once_with_its_usage() -> None:
    bench = Bench()
    async with bench.serve(ScriptedCrystal([says("Yes.", usage=Usage(10, 2, 1))])):
        response = await bench.talk("go")
    assert response.last is not None
    assert (response.last.turn, response.last.usage) == (1, Usage(10, 2, 1))
    assert "AgentUtterance" not in await bench.kinds()


async def test_an_answer_is_recorded_together_with_the_call_that_it_begins_with() -> None:
    bench = Bench()
    refused_first = calls(("nope", {}), ("echo", {"text": "2"}))
    async with bench.serve(
        ScriptedCrystal([calls(("echo", {"text": "1"}), text="I look."), refused_first, says("ok")])
    ):
        await bench.talk("go")
    first, second = [record.entry for record in await bench.records("AgentToolCall")]
    assert isinstance(first, AgentToolCall)
    assert isinstance(second, AgentToolCall)
    assert first.said is not None
    assert (first.said.turn, first.said.content) == (1, "I look.")
    assert second.said is None
    assert [said.turn for record in await bench.records() if (said := utterance_in(record))] == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "written"), [('{"text":"1","n":1.50}', '{"text":"1","n":1.50}'), ('{"text":"1"}', "")]
)
async def test_what_the_crystal_called_with_is_written_once_and_read_as_it_was(text: str, written: str) -> None:
    bench = Bench()
    answer = CrystalResponse(tool_calls=(ToolCall("t1", "echo", text),))
    async with bench.serve(ScriptedCrystal([answer, says("ok")])):
        await bench.talk("go")
    (called,) = await bench.records("AgentToolCall")
    assert isinstance(called.entry, AgentToolCall)
    assert called.entry.said is not None
    assert called.entry.said.tool_calls[0].arguments == written
    utterance = utterance_in(called)
    assert utterance is not None
    assert utterance.tool_calls == answer.tool_calls


async def test_a_turn_records_usage_duration_and_a_digest_instead_of_the_messages() -> None:
    bench = Bench()
    script = [calls(("echo", {"text": "secret"}), usage=Usage(100, 50, 7)), finishes("ok")]
    async with bench.serve(ScriptedCrystal(script)):
        await bench.talk("go")
    utterance = utterance_in((await bench.records("AgentToolCall"))[0])
    assert utterance is not None
    assert utterance.usage == Usage(100, 50, 7)
    assert utterance.duration_ms > 0
    called = [record.entry for record in await bench.records("CrystalCalled")]
    assert [(c.turn, c.attempt, c.messages) for c in called if isinstance(c, CrystalCalled)] == [(1, 1, 1), (2, 1, 3)]
    assert len({c.context for c in called if isinstance(c, CrystalCalled)}) == 2


async def test_a_persistent_entity_remembers_its_earlier_episodes() -> None:
    bench = Bench()
    crystal = ScriptedCrystal(
        [calls(("echo", {"text": "a"})), calls(("done", {"answer": "first"}), ("echo", {"text": "x"})), says("second")]
    )
    async with bench.serve(crystal, options(system_prompt="Be brief.")):
        await bench.talk("one")
        await bench.talk("two")
    assert shown(crystal) == [
        ("system", "Be brief."),
        ("user", "one"),
        ("assistant", None),
        ("tool", "a"),
        ("assistant", None),
        ("tool", "first"),
        ("tool", "Error: not_run: the episode ended before this call"),
        ("user", "two"),
    ]
    assert (await bench.kinds()).count("EntityCast") == 1


async def test_what_a_gate_gives_is_text_or_json() -> None:
    bench, crystal = Bench(), ScriptedCrystal([calls(("echo", {"other": [1, None]})), finishes("ok")])
    async with bench.serve(crystal):
        await bench.talk("go")
    assert json.loads(shown(crystal)[-1][1] or "") == {"heard": {"other": [1, None]}}


async def test_without_an_answer_in_time_the_entity_sees_a_fault_and_a_late_answer_changes_nothing() -> None:
    bench, crystal = Bench(), ScriptedCrystal([calls(("silent", {})), says("It does not answer."), says("hello")])
    async with bench.serve(crystal, options(tool_timeout_s=30)):
        prompt = await bench.ask("go")
        call = await bench.wait("AgentToolCall")
        await bench.clock.until_pending()
        bench.clock.advance(30)
        assert (await bench.response(prompt)).text == "It does not answer."
        await bench.answer(call, "here I am", id="late")
        assert (await bench.talk("hi")).text == "hello"
    (fault,) = await bench.records("AgentToolFault")
    assert isinstance(fault.entry, AgentToolFault)
    assert (fault.entry.code, fault.correlation_id, fault.lane) == ("timeout", call.correlation_id, "out")
    assert "no answer within 30 s" in (shown(crystal, 1)[-1][1] or "")
    assert not any("here I am" in (content or "") for _, content in shown(crystal, 2))
    assert "AgentToolResult" in await bench.kinds()


async def test_a_failure_that_may_pass_is_tried_again_and_stays_one_turn() -> None:
    bench = Bench()
    script = [
        CrystalError("rate_limited", "slow down", status=429, retry_after_s=30),
        CrystalError("unreachable", "no route to host"),
        finishes("ok"),
    ]
    crystal = ScriptedCrystal(script)
    async with bench.serve(crystal, options()):
        prompt = await bench.ask("go")
        await bench.wait("CrystalRetried")
        await bench.clock.until_pending()
        bench.clock.advance(29.9)
        assert len(crystal.requests) == 1
        bench.clock.advance(0.2)
        await bench.wait("CrystalRetried", 2)
        await bench.clock.until_pending()
        bench.clock.advance(10)
        response = await bench.response(prompt)
    assert response.text == "ok"
    assert (await bench.kinds()).count("AgentUtterance") == 1
    assert len({len(request.messages) for request in crystal.requests}) == 1


async def test_a_pause_that_a_provider_asked_for_lasts_over_restarts_and_its_attempt_counts_once(store: Store) -> None:
    bench, busy = Bench(store), CrystalError("rate_limited", "slow down", status=429, retry_after_s=30)
    first, second, third = (ScriptedCrystal([answer]) for answer in (busy, busy, finishes("ok")))
    async with bench.serve(first, options()):
        prompt = await bench.ask("go")
        await bench.wait("CrystalRetried")
    bench.clock.advance(10)
    async with bench.serve(second, options()):
        await bench.clock.until_pending()
        bench.clock.advance(19.9)
        assert (bench.clock.pending, second.requests) == (1, []), "it is not due yet"
        bench.clock.advance(0.1)
        await bench.wait("CrystalRetried", 2)
    bench.clock.advance(1000)
    async with bench.serve(third, options()):
        assert (await bench.response(prompt)).text == "ok"
    entries = [record.entry for record in await bench.records()]
    assert [entry.attempt for entry in entries if isinstance(entry, CrystalRetried)] == [1, 2]
    assert [entry.attempt for entry in entries if isinstance(entry, CrystalCalled)] == [1, 2, 3]
    assert [len(crystal.requests) for crystal in (first, second, third)] == [1, 1, 1]


async def test_a_provider_that_asks_for_hours_is_not_waited_for_in_silence() -> None:
    bench = Bench()
    crystal = ScriptedCrystal(
        [
            CrystalError("rate_limited", "slow down", status=429, retry_after_s=7200),
            CrystalError("rate_limited", "slow down", status=429, retry_after_s=300),
            says("ok"),
        ]
    )
    async with bench.serve(crystal, options()):
        response = await bench.talk("go")
        assert (response.ending, "slow down" in response.text) == ("failed", True)
        assert "it asks to be left alone for 7,200 s, more than the 300 s" in response.text
        prompt = await bench.ask("again")
        await bench.wait("CrystalRetried")
        await bench.clock.until_pending()
        bench.clock.advance(300)
        assert (await bench.response(prompt)).text == "ok"


@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_a_failure_that_will_not_pass_is_not_tried_again(status: int) -> None:
    bench = Bench()
    crystal = ScriptedCrystal([CrystalError("refused", "no", status=status)])
    async with bench.serve(crystal, options()):
        assert (await bench.talk("go")).ending == "failed"
    assert len(crystal.requests) == 1
