"""Answers that are shown while they are being written, on every platform where a message can be edited."""

from __future__ import annotations

import pytest

from branches.chat.live import CURSOR
from coven.testing import ManualClock
from tests.leaves.chats.discord.stage import staged as on_discord
from tests.leaves.chats.slack.stage import staged as on_slack


@pytest.fixture(params=[on_discord, on_slack], ids=["discord", "slack"])
async def stage(request: pytest.FixtureRequest):
    async with request.param() as made:
        yield made


async def test_a_thought_is_not_shown_as_the_answer_and_does_not_disturb_it(stage):
    clock = ManualClock()
    async with stage.bot(clock=clock):
        await stage.platform.say("write")
        (prompt,) = await stage.prompts(1)
        await stage.write(prompt, "s.thought", "A secret ", "thought. ", thought=True)
        await stage.write(prompt, "s", "One. ")
        (message,) = await stage.platform.until(stage.messages)
        assert message.text == f"One. {CURSOR}"
        await stage.write(prompt, "s.thought", "Another one. ", first=2, thought=True, complete=True)
        await stage.write(prompt, "s", "Two. ", first=1)
        await stage.written(6)
        await clock.until_pending()
        clock.advance(2)
        await stage.platform.until(lambda: message.text == f"One. Two. {CURSOR}")
        await stage.answer(prompt, "One. Two. Done.")
        await stage.delivered(1)
    assert stage.said() == ["One. Two. Done."]
    assert message.history == [f"One. {CURSOR}", f"One. Two. {CURSOR}"]


async def test_a_half_written_answer_of_an_earlier_life_becomes_the_answer(stage):
    async with stage.bot():
        await stage.platform.say("write")
        (prompt,) = await stage.prompts(1)
        await stage.write(prompt, "s", "One. ")
        await stage.platform.until(stage.messages)
    async with stage.bot():
        await stage.answer(prompt, "One. Two.")
        await stage.delivered(1)
    (message,) = stage.messages()
    assert (message.text, message.history) == ("One. Two.", [f"One. {CURSOR}"])


async def test_what_of_a_stream_comes_after_the_answer_is_not_shown(stage):
    async with stage.bot():
        await stage.platform.say("write")
        (prompt,) = await stage.prompts(1)
        await stage.answer(prompt, "short")
        await stage.delivered(1)
        await stage.write(prompt, "late", "One. ")
        await stage.platform.say("next")
        _, following = await stage.prompts(2)
        await stage.answer(following, "done")
        await stage.delivered(2)
    assert stage.said() == ["short", "done"]
