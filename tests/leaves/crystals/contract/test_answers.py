"""What every crystal answers, and what it is told to leave out of it."""

from __future__ import annotations

import asyncio

import pytest

from branches.agents.crystal import CrystalError, CrystalRequest, Message, Sampling
from tests.leaves.crystals.contract.subject import BRIEF, MOST, Subject, user

EXACTLY = "Say exactly this and nothing else: Caf\u00e9 \u2615 pong"


async def test_text(subject: Subject, streamed: bool):
    """CRYSTAL-3: the same whole and in pieces."""
    response = await subject.ask(BRIEF, user(EXACTLY), streamed=streamed)
    assert "Caf\u00e9 \u2615 pong" in (response.content or "")
    assert response.tool_calls == ()
    assert response.finish == "stop"


async def test_a_conversation_of_many_messages(subject: Subject, streamed: bool):
    """CRYSTAL-2."""
    talk = [BRIEF, user("My number is 41."), Message("assistant", "Good.")]
    for at in range(20):
        talk += [user(f"The sky is grey today, for the {at + 1}. time."), Message("assistant", "Yes.")]
    response = await subject.ask(*talk, user("Which number did I say was mine?"), streamed=streamed)
    assert "41" in (response.content or "")


async def test_it_keeps_nothing_between_two_requests(subject: Subject, streamed: bool):
    """CRYSTAL-1."""
    await subject.ask(BRIEF, user("My number is 8731."), streamed=streamed)
    response = await subject.ask(BRIEF, user("Which number did I say was mine?"), streamed=streamed)
    assert "8731" not in (response.content or "")


async def test_two_requests_at_once_do_not_mix(subject: Subject, streamed: bool):
    """CRYSTAL-1."""
    words = ("walnut", "heron")
    asked = (user(f"Say exactly this and nothing else: {word}") for word in words)
    answers = await asyncio.gather(*(subject.ask(BRIEF, each, streamed=streamed) for each in asked))
    for word, other, answer in zip(words, reversed(words), answers, strict=True):
        assert word in (answer.content or "").lower()
        assert other not in (answer.content or "").lower()


async def test_a_second_system_message_is_heard(subject: Subject, streamed: bool):
    known = Message("system", "What you know: today's password is heron. It is no secret.")
    response = await subject.ask(BRIEF, known, user("Which password is today's?"), streamed=streamed)
    assert "heron" in (response.content or "").lower()


async def test_a_stop_sequence_ends_the_text_before_it(subject: Subject, streamed: bool):
    """Natively, or cut off by the crystal where the provider has none."""
    count = user("Write the numbers from 1 to 9 in digits, with one space between two of them, and nothing else.")
    sampling = Sampling(max_tokens=MOST, stop=("5", "7"))
    response = await subject.ask(BRIEF, count, streamed=streamed, sampling=sampling)
    assert (response.content or "").split() == ["1", "2", "3", "4"]
    assert response.finish == "stop"


async def test_no_more_is_written_than_is_allowed(subject: Subject, streamed: bool):
    """The answer says that it was cut off there.

    A model that thinks may have used it all up before it says a word, which is an error that says what to do.
    """
    count = user("Write the numbers from 1 to 500 in digits, with one space between two of them, and nothing else.")
    outcome = await subject.outcome(BRIEF, count, streamed=streamed, sampling=Sampling(max_tokens=40))
    if isinstance(outcome, CrystalError):
        assert outcome.code == "invalid_response"
        assert "max_tokens" in str(outcome)
    else:
        assert "1" in (outcome.content or "")
        assert "500" not in (outcome.content or "")
        assert outcome.finish == "length"


async def test_options_of_the_call_are_taken(subject: Subject, streamed: bool):
    """Those that the model does not take are named in a warning, and are not sent."""
    sampling = Sampling(max_tokens=MOST, temperature=1.0, top_p=1.0, stop=("<end>",))
    response = await subject.ask(BRIEF, user(EXACTLY), streamed=streamed, sampling=sampling)
    assert "pong" in (response.content or "")


async def test_what_comes_from_a_cache_is_counted(subject: Subject, streamed: bool):
    """CRYSTAL-6: cached tokens are a part of the prompt's, which `ask` looks at. How many is the provider's to say.

    Only Anthropic promises them, for what it is told to keep.
    """
    rules = "\n".join(f"Rule {number}: the lantern of room {number} is lit at dusk." for number in range(500))
    asked = (Message("system", f"{BRIEF.content}\n{rules}"), user("Say exactly this and nothing else: pong"))
    first, second = [await subject.ask(*asked, streamed=streamed) for _ in range(2)]
    assert first.usage.prompt > 3000
    assert second.usage.prompt > 3000
    if not subject.live or subject.provider.name == "anthropic":
        assert second.usage.cached > 1000


async def test_cancelling_in_the_middle_of_an_answer(subject: Subject):
    """The crystal can be asked again at once."""
    count = user("Write the numbers from 1 to 300 in digits, with one space between two of them, and nothing else.")

    def cancel(piece: str) -> None:
        if not asking.cancelling():
            asking.cancel()

    request = CrystalRequest((BRIEF, count), sampling=Sampling(max_tokens=MOST))
    asking = asyncio.ensure_future(subject.invoke(subject.crystal, request, cancel))
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert "pong" in ((await subject.ask(BRIEF, user(EXACTLY), streamed=True)).content or "")
