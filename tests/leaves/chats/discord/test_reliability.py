"""One prompt for a message, one answer for a prompt, whatever breaks in between."""

from __future__ import annotations

import pytest

from branches.chat import ChatDelivered
from branches.chat.live import CURSOR
from coven.testing import ManualClock
from coven.testing.discord import Kind
from leaves.chats.discord.leaf import Discord


class Killed(Exception):
    """The process died here."""


class DiesAfterSending(Discord):
    """Dies between sending an answer and recording that."""

    async def deliver(self, message):
        await super().deliver(message)
        raise Killed


async def die(stage, text: str, *, question: str = "hello") -> None:
    """A life that ends just after an answer was sent."""
    async with stage.bot(leaf=DiesAfterSending) as life:
        await stage.discord.say(question)
        (prompt,) = await stage.prompts(1)
        await stage.answer(prompt, text)
        with pytest.raises(Killed):
            await life


async def test_a_message_that_comes_twice_is_one_prompt(echoing):
    async with echoing.bot():
        await echoing.discord.say("once")
        await echoing.discord.again("MESSAGE_CREATE")
        await echoing.delivered(1)
        await echoing.discord.say("next")
        await echoing.delivered(2)
    assert [prompt.entry.text for prompt in await echoing.prompts(2)] == ["Ada: once", "Ada: next"]
    assert echoing.said() == ["<Ada: once>", "<Ada: next>"]


async def test_a_message_that_comes_again_in_another_life_is_the_same_prompt(echoing):
    async with echoing.bot():
        asked = await echoing.discord.say("once")
        await echoing.delivered(1)
    async with echoing.bot():
        await echoing.discord.dispatch(
            "MESSAGE_CREATE", echoing.world.message_payload(asked, echoing.discord.base) | {"content": "edited"}
        )
        await echoing.discord.say("next")
        await echoing.delivered(2)
    assert [prompt.entry.text for prompt in await echoing.prompts(2)] == ["Ada: once", "Ada: next"]
    assert len(echoing.messages()) == 2


async def test_an_answer_that_was_sent_and_not_recorded_is_not_sent_again(stage):
    await die(stage, "the answer")
    async with stage.bot():
        (outcome,) = await stage.delivered(1)
    (message,) = stage.messages()
    assert outcome.entry == ChatDelivered(efferent=outcome.entry.efferent, receipt=str(message.id))


async def test_that_holds_also_when_discord_has_forgotten_the_nonce(stage):
    await die(stage, "the answer")
    stage.discord.forget_nonces()
    async with stage.bot():
        await stage.delivered(1)
    assert stage.said() == ["the answer"]


async def test_the_nonce_alone_keeps_it_one_where_history_may_not_be_read(stage):
    await die(stage, "the answer")
    stage.discord.forbid("history")
    async with stage.bot():
        await stage.delivered(1)
    assert stage.said() == ["the answer"]


async def test_of_a_long_answer_only_what_is_missing_is_sent(stage):
    text = "\n\n".join(f"Paragraph {number}. {'words ' * 60}" for number in range(12))
    await die(stage, text)
    stage.discord.forget_nonces()
    whole = stage.said()
    first, second, third = stage.messages()
    del stage.world.messages[third.id]
    async with stage.bot():
        await stage.delivered(1)
    assert stage.said() == whole
    assert stage.messages()[:2] == [first, second]


async def test_an_equal_answer_to_an_earlier_question_is_another_one(stage):
    async with stage.bot():
        await stage.discord.say("first")
        await stage.discord.say("second")
        first, second = await stage.prompts(2)
        await stage.answer(first, "ok")
        await stage.delivered(1)
    async with stage.bot():
        await stage.answer(second, "ok")
        await stage.delivered(2)
    assert stage.said() == ["ok", "ok"]
    assert [str(message.reply_to) for message in stage.messages()] == [
        first.entry.message_id,
        second.entry.message_id,
    ]


async def test_a_lost_connection_is_resumed_and_nothing_is_lost(echoing):
    async with echoing.bot():
        await echoing.discord.say("before")
        await echoing.delivered(1)
        await echoing.discord.ask_to_reconnect()
        await echoing.discord.say("meanwhile")
        await echoing.delivered(2)
        await echoing.discord.say("after")
        await echoing.delivered(3)
    assert (echoing.discord.identified, echoing.discord.resumed) == (1, 1)
    assert echoing.said() == ["<Ada: before>", "<Ada: meanwhile>", "<Ada: after>"]


async def test_a_session_that_discord_has_forgotten_begins_anew_and_what_was_missed_is_read(echoing):
    async with echoing.bot():
        await echoing.discord.say("before")
        await echoing.delivered(1)
        echoing.discord.forget()
        echoing.world.add(
            echoing.world.general,
            echoing.world.person("Ada"),
            f"<@{echoing.world.bot.id}> missed",
            mentions=(echoing.world.bot,),
        )
        echoing.world.add(echoing.world.general, echoing.world.person("Ada"), "missed, and not for the bot")
        await echoing.discord.ask_to_reconnect()
        await echoing.delivered(2)
    assert echoing.discord.identified == 2
    assert echoing.said() == ["<Ada: before>", "<Ada: missed>"]


async def test_it_sends_heartbeats_and_identifies_once(echoing):
    async with echoing.bot():
        await echoing.discord.until(lambda: echoing.discord.heartbeats >= 1)
    assert echoing.discord.identified == 1


async def test_a_rate_limit_delays_and_loses_nothing(echoing):
    echoing.discord.limits.rules["send"] = (2, 0.2)
    async with echoing.bot(listen="everything"):
        for number in range(6):
            await echoing.discord.say(str(number), mention=False)
        await echoing.delivered(6)
    assert echoing.said() == [f"<Ada: {number}>" for number in range(6)]


async def test_answers_wait_until_discord_is_back(stage):
    clock = ManualClock()
    async with stage.bot(clock=clock):
        await stage.discord.say("hello")
        (prompt,) = await stage.prompts(1)
        await clock.until_pending()
        stage.discord.break_connections("send", 1)
        await stage.answer(prompt, "there")
        await clock.until_pending(2)
        assert stage.said() == ["there"]
        stage.discord.forget_nonces()
        clock.advance(5)
        await stage.delivered(1)
    assert stage.said() == ["there"]


async def test_an_answer_is_edited_while_it_is_being_written_and_ends_as_the_message(stage):
    clock = ManualClock()
    async with stage.bot(clock=clock):
        asked = await stage.discord.say("write")
        (prompt,) = await stage.prompts(1)
        await stage.write(prompt, "s", "One. ")
        (message,) = await stage.discord.until(stage.messages)
        assert (message.text, message.reply_to) == (f"One. {CURSOR}", asked.id)
        await stage.write(prompt, "s", "Two. ", "Three. ", first=1)
        await stage.written(3)
        await clock.until_pending()
        clock.advance(1.5)
        await stage.discord.until(lambda: message.text == f"One. Two. Three. {CURSOR}")
        await stage.answer(prompt, "One. Two. Three. Done.")
        await stage.delivered(1)
    assert stage.messages() == [message]
    assert message.text == "One. Two. Three. Done."
    assert message.history == [f"One. {CURSOR}", f"One. Two. Three. {CURSOR}"]


async def test_what_was_said_shortly_before_a_start_is_answered_too_once_and_in_order(echoing):
    thread = echoing.world.channel("side", Kind.THREAD, echoing.world.general)
    for text in ("one", "two"):
        await echoing.discord.say(text)
    await echoing.discord.say("three", thread)
    await echoing.discord.say("not for the bot", mention=False)
    await echoing.discord.say("from another bot", author="Other", bot=True)
    async with echoing.bot():
        await echoing.delivered(3)
        await echoing.discord.say("four")
        await echoing.delivered(4)
    async with echoing.bot():
        await echoing.discord.say("five")
        await echoing.delivered(5)
    assert echoing.said() == [f"<Ada: {text}>" for text in ("one", "two", "four", "five")]
    assert echoing.said(thread) == ["<Ada: three>"]


async def test_more_of_it_is_read_than_discord_gives_at_once(stage):
    for number in range(250):
        await stage.discord.say(str(number))
    async with stage.bot():
        prompts = await stage.prompts(250)
    assert [prompt.entry.text for prompt in prompts] == [f"Ada: {number}" for number in range(250)]


async def test_a_message_that_comes_before_the_channels_are_known_waits_for_what_was_missed_there(echoing):
    channel = echoing.world.channel("Ada", Kind.DIRECT)
    async with echoing.bot():
        await echoing.discord.say("one", channel)
        await echoing.delivered(1)
    await echoing.discord.say("two", channel)
    async with echoing.bot():
        await echoing.discord.say("three", channel)
        await echoing.delivered(3)
    assert echoing.said(channel) == ["<Ada: one>", "<Ada: two>", "<Ada: three>"]


async def test_what_was_said_long_before_a_start_is_left_alone(echoing):
    await echoing.discord.say("long ago")
    async with echoing.bot(catch_up_s=0):
        await echoing.discord.say("now")
        await echoing.delivered(1)
    assert echoing.said() == ["<Ada: now>"]


async def test_what_belongs_to_an_earlier_conversation_of_a_channel_is_no_prompt_of_the_next_one(echoing):
    async with echoing.bot(commands=True):
        await echoing.discord.say("one")
        await echoing.delivered(1)
        await echoing.discord.command("reset")
        await echoing.discord.until(lambda: echoing.discord.responses)
    async with echoing.bot():
        await echoing.discord.say("two")
        await echoing.delivered(2)
    assert [prompt.entry.text for prompt in await echoing.prompts(2)] == ["Ada: one", "Ada: two"]


async def test_a_message_that_was_shown_while_the_connection_broke_becomes_the_answer(stage):
    async with stage.bot():
        await stage.discord.say("write")
        (prompt,) = await stage.prompts(1)
        stage.discord.break_connections("send", 1)
        await stage.write(prompt, "s", "One. ")
        await stage.discord.until(stage.messages)
        await stage.answer(prompt, "One. Two.")
        await stage.delivered(1)
    assert stage.said() == ["One. Two."]


QUESTIONS = ("one", "two", "three")


async def converse_in_many_rooms(stage, count: int, per_s: int, channel_s: float) -> None:
    """In every room at once three questions, each answered piece by piece; the limits are Discord's or tighter."""
    rooms = {room.id: room for room in (stage.world.channel(f"room {number}") for number in range(count))}
    limits = stage.discord.limits
    limits.rules |= {"send": (5, channel_s), "edit": (5, channel_s), "typing": (5, channel_s), "global": (per_s, 1.0)}
    async with stage.bot(requests_per_s=per_s, edit_every_s=1.0, timeout=300):
        for text in QUESTIONS:
            for room in rooms.values():
                await stage.discord.say(text, room)
        prompts: dict[str, list] = {}
        for prompt in await stage.prompts(count * len(QUESTIONS)):
            prompts.setdefault(prompt.session, []).append(prompt)
        for number in range(len(QUESTIONS)):
            asked = [each[number] for each in prompts.values()]
            for prompt in asked:
                await stage.write(prompt, prompt.id, f"Of {prompt.entry.text}: ")
            await stage.discord.until(lambda n=number: len(newest(stage, rooms, n, CURSOR)) == count, 120)
            for prompt in asked:
                await stage.write(prompt, prompt.id, "much. ", first=1)
            await stage.discord.until(lambda n=number: len(newest(stage, rooms, n, f"much. {CURSOR}")) == count, 120)
            for prompt in asked:
                await stage.answer(prompt, f"Of {prompt.entry.text}: much. That is all.")
        await stage.delivered(count * len(QUESTIONS), 120)
    for room in rooms.values():
        found = stage.messages(room)
        assert [message.text for message in found] == [f"Of Ada: {text}: much. That is all." for text in QUESTIONS]
        assert [str(message.reply_to) for message in found] == [
            prompt.entry.message_id for prompt in prompts[f"discord:{room.id}"]
        ]
        assert all(message.history[-1].endswith(f"much. {CURSOR}") for message in found)
    assert limits.refused == 0


def newest(stage, rooms, number: int, ending: str) -> list[int]:
    """The rooms whose n-th message of the bot ends like this."""
    said: dict[int, list[str]] = {}
    for message in stage.world.messages.values():
        if message.author == stage.world.bot:
            said.setdefault(message.channel.id, []).append(message.text)
    return [id for id, texts in said.items() if id in rooms and len(texts) > number and texts[number].endswith(ending)]


async def test_many_streamed_conversations_at_once_keep_to_the_limits_and_lose_double_and_swap_nothing(stage):
    await converse_in_many_rooms(stage, 40, 400, 1.0)


@pytest.mark.chaos
@pytest.mark.timeout(600)
async def test_two_hundred_streamed_conversations_at_once_under_the_limits_of_discord(stage):
    await converse_in_many_rooms(stage, 200, 50, 5.0)


async def test_an_answer_to_a_prompt_of_an_earlier_life_stands_above_a_later_one_that_is_being_written(stage):
    async with stage.bot():
        await stage.discord.say("first")
        (first,) = await stage.prompts(1)
    async with stage.bot():
        await stage.discord.say("second")
        _, second = await stage.prompts(2)
        await stage.write(second, "s2", "Two. ")
        await stage.write(first, "s1", "One. ")
        await stage.discord.until(stage.messages)
        assert stage.said() == [f"One. {CURSOR}"]
        await stage.answer(first, "One. One.")
        await stage.discord.until(lambda: len(stage.messages()) == 2)
        await stage.answer(second, "Two. Two.")
        await stage.delivered(2)
    assert stage.said() == ["One. One.", "Two. Two."]


async def test_a_connection_that_is_lost_while_an_answer_is_being_written_loses_nothing(stage):
    async with stage.bot():
        await stage.discord.say("write")
        (prompt,) = await stage.prompts(1)
        await stage.write(prompt, "s", "One. ")
        await stage.discord.until(stage.messages)
        await stage.discord.drop()
        await stage.discord.say("meanwhile")
        await stage.answer(prompt, "One. Two.")
        _, meanwhile = await stage.prompts(2)
        await stage.answer(meanwhile, "Three.")
        await stage.delivered(2)
    assert (stage.discord.identified, stage.discord.resumed) == (1, 1)
    assert stage.said() == ["One. Two.", "Three."]
