"""People in the loop: a gate call that waits for a person, and a question that the entity asks one."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from branches.agents.call import Call
from branches.agents.cantrip import Cantrip
from branches.agents.circle import circle
from branches.agents.crystal import Crystal, CrystalRequest, CrystalResponse
from branches.agents.entries import AgentToolResult, ApprovalAsked, ApprovalGiven
from branches.agents.wards import Ward
from coven.testing import ScriptedCrystal, calls, finishes
from coven.testing.scripted import runs
from journals import Entry, Record, Store
from leaves.mediums.javascript import JavaScript
from tests.branches.agents.bench import Bench, Playbook


class Shop:
    """A gate that spends money, and how often it did."""

    def __init__(self) -> None:
        self.paid: list[int] = []

        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        self.gate = pay

    def cantrip(
        self, crystal: Crystal, *wards: Ward, medium: str = "tools", approvers: tuple[str, ...] = ()
    ) -> Cantrip:
        gates = ["done", "ask_person", self.gate]
        limits = wards or (Ward(max_turns=5),)
        return Cantrip(crystal, Call(), circle(gates, limits, medium, approve=["pay"], approvers=approvers))


async def asked(bench: Bench, count: int = 1) -> Record[Entry]:
    return await bench.wait("ApprovalAsked", count)


async def answer(bench: Bench, question: Record[Entry], text: str, by: str = "ada") -> None:
    """What a person says, as a route brings it."""
    assert isinstance(question.entry, ApprovalAsked)
    given = ApprovalGiven(correlation_id=question.entry.correlation_id, answer=text, by=by)
    await (await bench.open()).append(given, session=question.session, cause=question)


def script() -> list[object]:
    return [calls(("pay", {"amount": 3})), finishes("ok")]


async def test_an_approved_call_is_made_with_the_arguments_that_were_shown() -> None:
    bench, shop, crystal = Bench(), Shop(), ScriptedCrystal(script())  # type: ignore[arg-type]
    async with bench.serve(crystal, cantrip=shop.cantrip(crystal)):
        prompt = await bench.ask("buy")
        question = await asked(bench)
        assert isinstance(question.entry, ApprovalAsked)
        assert (question.entry.gate, question.entry.arguments) == ("pay", {"amount": 3})
        assert 'pay with {"amount":3}' in question.entry.question
        assert shop.paid == []
        await answer(bench, question, "Yes")
        await bench.response(prompt)
    assert shop.paid == [3]
    assert crystal.requests[-1].messages[-1].content == "paid 3"


@pytest.mark.parametrize("text", ["no", "nope", "", "yes, but only 2"])
async def test_anything_but_yes_is_a_refusal_that_the_entity_sees(text: str) -> None:
    bench, shop, crystal = Bench(), Shop(), ScriptedCrystal(script())  # type: ignore[arg-type]
    async with bench.serve(crystal, cantrip=shop.cantrip(crystal)):
        prompt = await bench.ask("buy")
        await answer(bench, await asked(bench), text)
        await bench.response(prompt)
    assert shop.paid == []
    seen = crystal.requests[-1].messages[-1].content or ""
    assert seen == f"Error: denied: ada did not approve this call, and answered: {text}"


async def test_who_may_not_answer_is_not_heard_and_the_question_is_asked_again() -> None:
    bench, shop, crystal = Bench(), Shop(), ScriptedCrystal(script())  # type: ignore[arg-type]
    async with bench.serve(crystal, cantrip=shop.cantrip(crystal, approvers=("grace",))):
        prompt = await bench.ask("buy")
        await answer(bench, await asked(bench), "yes", by="mallory")
        again = await asked(bench, 2)
        assert shop.paid == []
        await answer(bench, again, "yes", by="grace")
        await bench.response(prompt)
    assert shop.paid == [3]


@pytest.mark.parametrize("text", ["nobody could be asked: the channel is gone", "yes", ""])
@pytest.mark.parametrize("approvers", [(), ("grace",)])
async def test_where_nobody_can_be_asked_it_is_refused_and_not_asked_again(
    text: str, approvers: tuple[str, ...]
) -> None:
    bench, shop, crystal = Bench(), Shop(), ScriptedCrystal(script())  # type: ignore[arg-type]
    async with bench.serve(crystal, cantrip=shop.cantrip(crystal, approvers=approvers)):
        prompt = await bench.ask("buy")
        await answer(bench, await asked(bench), text, by="")
        await bench.response(prompt)
    assert shop.paid == []
    seen = crystal.requests[-1].messages[-1].content or ""
    assert seen == f"Error: denied: nobody approved this call: {text or 'what came was no answer'}"
    assert len(await bench.records("ApprovalAsked")) == 1


async def test_it_waits_over_restarts_and_the_same_question_stands() -> None:
    bench, shop = Bench(), Shop()
    first, second = Playbook(script()), Playbook(script())  # type: ignore[arg-type]
    async with bench.serve(first, cantrip=shop.cantrip(first)):
        prompt = await bench.ask("buy")
        question = await asked(bench)
    bench.clock.advance(3 * 24 * 3600)
    async with bench.serve(second, cantrip=shop.cantrip(second)):
        await answer(bench, question, "yes")
        await bench.response(prompt)
    assert shop.paid == [3]
    assert len(await bench.records("ApprovalAsked")) == 1
    assert first.asked + second.asked == [0, 1]


async def test_the_answer_of_one_call_counts_for_no_other() -> None:
    bench, shop = Bench(), Shop()
    crystal = ScriptedCrystal([calls(("pay", {"amount": 3}), ("pay", {"amount": 300})), finishes("ok")])
    async with bench.serve(crystal, cantrip=shop.cantrip(crystal)):
        prompt = await bench.ask("buy")
        question = await asked(bench)
        await answer(bench, question, "yes")
        other = await asked(bench, 2)
        await answer(bench, question, "yes")
        assert shop.paid == [3]
        await answer(bench, other, "no")
        await bench.response(prompt)
    assert shop.paid == [3]


async def test_while_a_person_is_asked_the_episode_has_all_the_time_in_the_world() -> None:
    bench, shop, crystal = Bench(), Shop(), ScriptedCrystal(script())  # type: ignore[arg-type]
    async with bench.serve(crystal, cantrip=shop.cantrip(crystal, Ward(max_seconds=10))):
        prompt = await bench.ask("buy")
        question = await asked(bench)
        await asyncio.sleep(0)
        bench.clock.advance(1000)
        await answer(bench, question, "yes")
        assert (await bench.response(prompt)).text == "ok"
    assert shop.paid == [3]


async def test_an_entity_asks_a_person_and_gets_the_answer() -> None:
    bench, shop = Bench(), Shop()
    asks = calls(("ask_person", {"question": "Tea or coffee?", "choices": ["tea", "coffee"]}))
    crystal = ScriptedCrystal([asks, finishes("ok")])
    async with bench.serve(crystal, cantrip=shop.cantrip(crystal)):
        prompt = await bench.ask("serve")
        question = await asked(bench)
        assert isinstance(question.entry, ApprovalAsked)
        assert (question.entry.question, question.entry.choices) == ("Tea or coffee?", ("tea", "coffee"))
        await answer(bench, question, "tea")
        await bench.response(prompt)
    assert crystal.requests[-1].messages[-1].content == "tea"


@pytest.mark.parametrize("approvers", [(), ("grace",)])
async def test_an_entity_reads_that_nobody_could_be_asked(approvers: tuple[str, ...]) -> None:
    bench, shop = Bench(), Shop()
    crystal = ScriptedCrystal([calls(("ask_person", {"question": "Well?"})), finishes("ok")])
    async with bench.serve(crystal, cantrip=shop.cantrip(crystal, approvers=approvers)):
        prompt = await bench.ask("serve")
        await answer(bench, await asked(bench), "nobody could be asked: the channel is gone", by="")
        await bench.response(prompt)
    assert crystal.requests[-1].messages[-1].content == "Error: unasked: nobody could be asked: the channel is gone"
    assert len(await bench.records("ApprovalAsked")) == 1


async def test_code_waits_for_a_person_too() -> None:
    bench, shop = Bench(), Shop()
    code = "try { pay(9) } catch (e) { print(e.message) }; done(pay(4) + ', ' + ask_person('ok?'))"
    crystal, medium = ScriptedCrystal([runs(code)]), JavaScript()
    made = shop.cantrip(crystal, medium="javascript")
    mediums = {"javascript": medium}
    async with bench.serve(crystal, cantrip=made, medium=mediums.__getitem__):
        prompt = await bench.ask("buy")
        for number, text in enumerate(("no", "yes", "fine"), 1):
            await answer(bench, await asked(bench, number), text)
        assert (await bench.response(prompt)).text == "paid 4, fine"
    assert shop.paid == [4]
    await medium.close()


async def test_a_batch_of_children_waits_where_a_single_child_would() -> None:
    bench = Bench()
    crystal = ScriptedCrystal([calls(("call_agent_batch", {"requests": ["a", "b"]})), finishes("ok")])
    gates = ["done", "call_agent", "call_agent_batch"]
    made = Cantrip(crystal, Call(), circle(gates, [Ward(max_turns=5)], approve=["call_agent"]))
    async with bench.serve(crystal, cantrip=made):
        prompt = await bench.ask("delegate")
        await answer(bench, await asked(bench), "no")
        await bench.response(prompt)
    assert "denied" in (crystal.requests[-1].messages[-1].content or "")
    assert await bench.records("EntitySummoned") == []


class Spender:
    """A child that pays what its intent says, and tells what came of it."""

    async def invoke(self, request: CrystalRequest, on_text: object = None) -> CrystalResponse:
        last = request.messages[-1]
        return calls(("pay", {"amount": int(last.content or "")})) if last.role == "user" else finishes(last.content)


async def test_children_of_a_batch_ask_each_for_its_own_call_also_over_a_restart(store: Store) -> None:
    bench, shop = Bench(store), Shop()
    script = [calls(("call_agent_batch", {"requests": ["3", "4", "5"]})), finishes("ok")]

    def made(crystal: Crystal) -> Cantrip:
        gates = ["done", "call_agent", "call_agent_batch", shop.gate]
        within = circle(gates, [Ward(max_turns=5)], approve=["pay"])
        return Cantrip(crystal, Call(), within, child_crystals=(Spender(),))

    first, second = Playbook(script), ScriptedCrystal(script[1:])
    async with bench.serve(first, cantrip=made(first)):
        prompt = await bench.ask("buy")
        questions = {
            question.entry.arguments["amount"]: question
            for question in [await asked(bench, number) for number in (1, 2, 3)]
            if isinstance(question.entry, ApprovalAsked)
        }
        assert len({question.entry.scope for question in questions.values()}) == 3  # type: ignore[attr-defined]
        await answer(bench, questions[4], "yes")
        await bench.wait("EntityReturned")
    assert shop.paid == [4]
    async with bench.serve(second, cantrip=made(second)):
        await answer(bench, questions[5], "yes")
        await answer(bench, questions[3], "no")
        assert (await bench.response(prompt)).text == "ok"
    assert shop.paid == [4, 5]
    refused, *paid = msgspec.json.decode(second.requests[0].messages[-1].content or "")
    assert "ada did not approve this call" in refused
    assert paid == ["paid 4", "paid 5"]
    assert len(await bench.records("ApprovalAsked")) == 3


async def test_what_is_sent_under_a_questions_id_and_is_no_answer_approves_nothing() -> None:
    bench, shop, crystal = Bench(), Shop(), ScriptedCrystal(script())  # type: ignore[arg-type]
    async with bench.serve(crystal, cantrip=shop.cantrip(crystal)):
        prompt = await bench.ask("buy")
        question = await asked(bench)
        assert isinstance(question.entry, ApprovalAsked)
        stray = AgentToolResult(correlation_id=question.entry.correlation_id, result="yes")
        await (await bench.open()).append(stray, session=question.session, cause=question)
        await bench.response(prompt)
    assert shop.paid == []


async def test_an_answer_sent_under_a_gate_calls_id_is_no_result() -> None:
    bench, crystal = Bench(), ScriptedCrystal([calls(("silent", {})), finishes("ok")])
    async with bench.serve(crystal):
        prompt = await bench.ask("go")
        call = await bench.wait("AgentToolCall")
        stray = ApprovalGiven(correlation_id=call.correlation_id or "", answer="yes", by="ada")
        await (await bench.open()).append(stray, session=call.session, cause=call)
        await bench.response(prompt)
    assert "bad_result" in (crystal.requests[-1].messages[-1].content or "")


async def test_what_is_asked_hides_nothing_of_the_arguments() -> None:
    async def note(text: str) -> str:
        """Note."""
        return text

    hidden = "milk\u202e\u200b\u2028\U000e0041\u3164é"
    bench, crystal = Bench(), ScriptedCrystal([calls(("note", {"text": hidden})), finishes("ok")])
    cantrip = Cantrip(crystal, Call(), circle(["done", note], [Ward(max_turns=5)], approve=["note"]))
    async with bench.serve(crystal, cantrip=cantrip):
        prompt = await bench.ask("note it")
        question = await asked(bench)
        assert isinstance(question.entry, ApprovalAsked)
        assert question.entry.question.endswith(r'{"text":"milk\u202e\u200b\u2028\udb40\udc41\u3164é"}?')
        assert question.entry.arguments == {"text": hidden}
        await answer(bench, question, "yes")
        await bench.response(prompt)
    assert crystal.requests[-1].messages[-1].content == hidden
