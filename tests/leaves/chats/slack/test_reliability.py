"""One prompt for a message, one answer for a prompt, whatever breaks in between."""

from __future__ import annotations

import asyncio

import pytest
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from branches.chat import ChatDelivered
from branches.chat.live import CURSOR
from coven.testing import ManualClock
from journals import derive_id
from leaves.chats.slack.failures import SetupError
from leaves.chats.slack.leaf import Slack


class Killed(Exception):
    """The process died here."""


class DiesAfterSending(Slack):
    """Dies between sending an answer and recording that."""

    async def deliver(self, message):
        await super().deliver(message)
        raise Killed


class DiesBeforeAcknowledging(Slack):
    """Dies between recording a message and acknowledging it."""

    async def _handle(self, item):
        self._socket.acknowledge = self._die
        await super()._handle(item)

    async def _die(self, *_):
        raise Killed


async def die(stage, text: str, *, question: str = "hello", thread=None) -> None:
    """A life that ends just after an answer was sent."""
    async with stage.bot(leaf=DiesAfterSending) as life:
        await stage.slack.say(question, thread=thread)
        (prompt,) = await stage.prompts(1)
        await stage.answer(prompt, text)
        with pytest.raises(Killed):
            await life


async def test_a_message_that_comes_twice_is_one_prompt(echoing):
    async with echoing.bot():
        await echoing.slack.say("once")
        await echoing.slack.again()
        await echoing.delivered(1)
        await echoing.slack.again()
        await echoing.slack.say("next")
        await echoing.delivered(2)
        await echoing.acknowledged()
    assert [prompt.entry.text for prompt in await echoing.prompts(2)] == ["Ada: once", "Ada: next"]
    assert len(echoing.said()) == 2


async def test_a_message_is_acknowledged_when_it_is_recorded_and_not_before(stage):
    async with stage.bot(leaf=DiesBeforeAcknowledging) as life:
        await stage.slack.say("hello")
        with pytest.raises(Killed):
            await life
        assert len(stage.slack.unacknowledged) == 2
    (first,) = await stage.prompts(1)
    async with stage.bot():
        await stage.acknowledged()
        await stage.slack.say("next")
        assert [prompt.entry.text for prompt in await stage.prompts(2)] == ["Ada: hello", "Ada: next"]
    assert first.entry.message_id.startswith(stage.world.general.id)


async def test_a_command_that_was_not_acknowledged_is_still_one_prompt(stage):
    async with stage.bot(leaf=DiesBeforeAcknowledging) as life:
        await stage.slack.command("/ask", "what is new?")
        with pytest.raises(Killed):
            await life
    async with stage.bot():
        await stage.acknowledged()
        await stage.slack.say("next")
        assert [prompt.entry.text for prompt in await stage.prompts(2)] == ["Ada: what is new?", "Ada: next"]


async def test_an_answer_that_was_sent_and_not_recorded_is_not_sent_again(stage):
    await die(stage, "the answer")
    async with stage.bot():
        (outcome,) = await stage.delivered(1)
    (message,) = stage.messages()
    assert outcome.entry == ChatDelivered(efferent=outcome.entry.efferent, receipt=message.ts)


async def test_that_holds_in_a_thread_and_behind_many_other_messages(stage):
    root = stage.world.add(stage.world.general, stage.world.person("Ada"), "root")
    await die(stage, "the answer", thread=root)
    for number in range(300):
        stage.world.add(stage.world.general, stage.world.person("Ada"), str(number), thread=root.ts)
    async with stage.bot():
        await stage.delivered(1)
    assert stage.said(thread=root) == ["the answer"]
    pages = [given for given in stage.asked("conversations.replies") if "include_all_metadata" in given]
    assert len(pages) == 2


async def test_where_history_may_not_be_read_it_is_sent_again(stage):
    await die(stage, "the answer")
    stage.slack.scopes.discard("channels:history")
    async with stage.bot():
        await stage.delivered(1)
    assert stage.said() == ["the answer", "the answer"]


async def test_of_a_long_answer_only_what_is_missing_is_sent(stage):
    text = "\n\n".join(f"Paragraph {number}. {'words ' * 100}" for number in range(20))
    await die(stage, text)
    whole = stage.said()
    first, *_, last = stage.messages()
    del stage.world.messages[last.channel.id, last.ts]
    async with stage.bot():
        await stage.delivered(1)
    assert stage.said() == whole
    assert stage.messages()[0] == first


async def test_each_half_written_answer_of_an_earlier_life_becomes_its_own(stage):
    for life in (1, 2):
        async with stage.bot():
            if life == 2:  # another conversation in the same channel: it does not wait for the first one's answer
                await stage.slack.command("/reset")
            await stage.slack.say(str(life))
            prompts = await stage.prompts(life)
            await stage.write(prompts[-1], prompts[-1].id, "One. ")
            await stage.slack.until(lambda: len(stage.messages()) == life)  # noqa: B023
            await stage.acknowledged()
    async with stage.bot():
        for number, prompt in enumerate(prompts):
            await stage.answer(prompt, f"One. {number}.")
        await stage.delivered(2)
    assert stage.said() == ["One. 0.", "One. 1."]


async def test_an_answer_is_not_shown_above_one_to_an_earlier_life_s_prompt(stage):
    async with stage.bot():
        await stage.slack.say("first")
        (first,) = await stage.prompts(1)
        await stage.acknowledged()
    async with stage.bot():
        await stage.slack.say("second")
        _, second = await stage.prompts(2)
        await stage.write(second, "s", "Two. ")
        await stage.written(1)
        await stage.answer(first, "One.")
        await stage.delivered(1)
        await stage.answer(second, "Two.")
        await stage.delivered(2)
    assert stage.said() == ["One.", "Two."]


async def test_a_message_whose_fate_was_not_known_while_it_was_written_becomes_the_answer(stage):
    clock = ManualClock()
    async with stage.bot(clock=clock):
        await stage.slack.say("write")
        (prompt,) = await stage.prompts(1)
        stage.slack.break_connections("chat.postMessage", 1)
        await stage.write(prompt, "s", "One. ")
        await stage.slack.until(stage.messages)
        await stage.answer(prompt, "One. Two.")
        await stage.delivered(1)
    assert stage.said() == ["One. Two."]


async def test_an_equal_answer_to_another_question_is_another_one(stage):
    async with stage.bot():
        await stage.slack.say("first")
        await stage.slack.say("second")
        first, second = await stage.prompts(2)
        await stage.answer(first, "ok")
        await stage.delivered(1)
    async with stage.bot():
        await stage.answer(second, "ok")
        await stage.delivered(2)
    assert stage.said() == ["ok", "ok"]


@pytest.mark.parametrize("reason", ["refresh_requested", "warning"])
async def test_when_slack_asks_for_it_there_is_a_new_connection_before_the_old_one_goes(echoing, reason):
    most = 0

    async def watch() -> None:
        nonlocal most
        async with echoing.slack.changed:
            while True:
                most = max(most, echoing.slack.open)
                await echoing.slack.changed.wait()

    watching = asyncio.create_task(watch())
    async with echoing.bot():
        await echoing.slack.say("before")
        await echoing.delivered(1)
        await echoing.slack.ask_to_reconnect(reason)
        await echoing.slack.say("meanwhile")
        await echoing.delivered(2)
        await echoing.slack.until(lambda: echoing.slack.connections == 2 and echoing.slack.open == 1)
        await echoing.slack.say("after")
        await echoing.delivered(3)
        await echoing.acknowledged()
    watching.cancel()
    assert most == 2
    assert [prompt.entry.text for prompt in await echoing.prompts(3)] == ["Ada: before", "Ada: meanwhile", "Ada: after"]
    assert len(echoing.said()) == 3


async def test_a_connection_that_is_cut_comes_back_and_what_was_not_acknowledged_comes_again(echoing):
    async with echoing.bot():
        await echoing.slack.say("before")
        await echoing.delivered(1)
        await echoing.acknowledged()
        await echoing.slack.drop()
        await echoing.slack.say("meanwhile")
        await echoing.delivered(2)
        await echoing.acknowledged()
    assert echoing.slack.connections == 2
    assert len(echoing.said()) == 2


async def test_when_there_are_too_many_connections_it_comes_back_after_a_while(echoing):
    clock = ManualClock()
    async with echoing.bot(clock=clock):
        await echoing.slack.ask_to_reconnect("too_many_websockets")
        await clock.until_pending()
        assert echoing.slack.connections == 1
        clock.advance(5)
        await echoing.slack.until(lambda: echoing.slack.connections == 2)
        await echoing.slack.say("hello")
        await echoing.delivered(1)


async def test_when_socket_mode_is_switched_off_that_is_said(stage):
    clock = ManualClock()
    async with stage.bot(clock=clock) as life:
        stage.slack.mode = False
        await stage.slack.ask_to_reconnect("link_disabled")
        await clock.until_pending()
        clock.advance(5)
        with pytest.raises(SetupError, match="switch Socket Mode on"):
            await life


async def test_what_cannot_be_read_is_passed_over(echoing):
    async with echoing.bot():
        await echoing.slack.send("events_api", {"event": {"type": 7}})
        await echoing.slack.send("slash_commands", {})
        await echoing.slack.utter("{ no JSON")
        await echoing.slack.utter('{"type": "debug"}')
        await echoing.slack.say("hello")
        await echoing.delivered(1)
        await echoing.acknowledged()


async def test_when_slack_has_no_address_it_is_asked_again_after_a_while(echoing):
    clock = ManualClock()
    async with echoing.bot(clock=clock):
        echoing.slack.refuse("apps.connections.open", "internal_error")
        await echoing.slack.drop()
        await clock.until_pending()
        echoing.slack.refuse("apps.connections.open", None)
        clock.advance(5)
        await echoing.slack.say("hello")
        await echoing.delivered(1)
    assert len(echoing.said()) == 1


async def test_a_token_that_is_revoked_ends_the_life_and_the_answer_is_sent_by_a_later_one(stage):
    async with stage.bot() as life:
        await stage.slack.say("hello")
        (prompt,) = await stage.prompts(1)
        stage.slack.refuse("chat.postMessage", "token_revoked")
        await stage.answer(prompt, "the answer")
        with pytest.raises(SetupError, match="set SLACK_BOT_TOKEN"):
            await life
    stage.slack.refuse("chat.postMessage", None)
    async with stage.bot():
        await stage.delivered(1)
    assert stage.said() == ["the answer"]


async def test_a_rate_limit_is_waited_for_as_long_as_slack_says_and_loses_nothing(stage):
    clock = ManualClock()
    stage.slack.limits.busy["chat.postMessage"] = (2, 7)
    async with stage.bot(clock=clock):
        await stage.slack.say("one")
        (prompt,) = await stage.prompts(1)
        await stage.answer(prompt, "first")
        await stage.answer(prompt, "second")
        for refused in (1, 2):
            await stage.slack.until(lambda: len(stage.slack.limits.refused) == refused)  # noqa: B023
            await clock.until_pending()
            clock.advance(6.9)
            assert clock.pending == 1
            clock.advance(0.1)
        await stage.delivered(2)
    assert stage.said() == ["first", "second"]
    assert stage.slack.limits.refused == ["chat.postMessage"] * 2


async def test_answers_wait_until_slack_is_back_and_are_looked_for_before_they_are_sent_again(stage):
    clock = ManualClock()
    async with stage.bot(clock=clock):
        await stage.slack.say("hello")
        (prompt,) = await stage.prompts(1)
        stage.slack.break_connections("chat.postMessage", 1)
        await stage.answer(prompt, "there")
        await clock.until_pending()
        assert stage.said() == ["there"]
        clock.advance(5)
        await stage.delivered(1)
    assert stage.said() == ["there"]


async def test_where_history_may_not_be_read_only_what_is_in_doubt_is_sent_again(stage):
    clock = ManualClock()
    stage.slack.scopes.discard("channels:history")
    text = "\n\n".join(f"Paragraph {number}. {'words ' * 100}" for number in range(10))
    async with stage.bot(clock=clock):
        await stage.slack.say("hello")
        (prompt,) = await stage.prompts(1)
        await stage.write(prompt, "s", "Half. ")
        (first,) = await stage.slack.until(stage.messages)
        stage.slack.break_connections("chat.postMessage", 1)
        await stage.answer(prompt, text)
        await stage.slack.until(lambda: len(stage.messages()) == 2)
        await clock.until_pending()
        clock.advance(5)
        await stage.delivered(1)
    parts = [message.metadata["event_payload"]["part"] for message in stage.messages()]
    assert parts == [0, 1, 1]
    assert stage.messages()[0] is first


async def test_an_answer_is_edited_while_it_is_being_written_and_ends_as_the_message(stage):
    clock = ManualClock()
    async with stage.bot(clock=clock):
        await stage.slack.say("write")
        (prompt,) = await stage.prompts(1)
        await stage.write(prompt, "s", "One. ")
        (message,) = await stage.slack.until(stage.messages)
        assert message.text == f"One. {CURSOR}"
        await stage.write(prompt, "s", "Two. ", "**Three.** ", first=1)
        await stage.written(3)
        await clock.until_pending()
        clock.advance(2)
        await stage.slack.until(lambda: message.text == f"One. Two. *Three.* {CURSOR}")
        await stage.answer(prompt, "One. Two. **Three.** Done.")
        await stage.delivered(1)
    assert stage.messages() == [message]
    assert message.text == "One. Two. *Three.* Done."
    assert message.history == [f"One. {CURSOR}", f"One. Two. *Three.* {CURSOR}"]
    assert message.metadata["event_payload"]["answer"] != ""
    assert {given["parse"] for given in stage.asked("chat.update")} == {"none"}


async def test_an_edit_that_comes_too_early_waits_and_the_answer_still_ends_whole(stage):
    clock = ManualClock()
    stage.slack.limits.busy["chat.update"] = (1, 30)
    async with stage.bot(clock=clock):
        await stage.slack.say("write")
        (prompt,) = await stage.prompts(1)
        await stage.write(prompt, "s", "One. ")
        (message,) = await stage.slack.until(stage.messages)
        await stage.answer(prompt, "One. Two.")
        await stage.slack.until(lambda: stage.slack.limits.refused)
        await clock.until_pending()
        clock.advance(30)
        await stage.delivered(1)
    assert (stage.messages(), message.text) == ([message], "One. Two.")


async def test_a_connection_that_is_cut_in_the_middle_of_a_stream_changes_nothing(stage):
    clock = ManualClock()
    async with stage.bot(clock=clock):
        await stage.slack.say("write")
        (prompt,) = await stage.prompts(1)
        await stage.write(prompt, "s", "One. ")
        (message,) = await stage.slack.until(stage.messages)
        await stage.slack.drop()
        await stage.slack.until(lambda: stage.slack.connections == 2)
        await stage.write(prompt, "s", "Two. ", first=1)
        await stage.written(2)
        await clock.until_pending()
        clock.advance(2)
        await stage.slack.until(lambda: message.text == f"One. Two. {CURSOR}")
        await stage.answer(prompt, "One. Two.")
        await stage.delivered(1)
        await stage.acknowledged()
    assert stage.said() == ["One. Two."]


async def test_what_was_being_written_and_may_not_be_edited_any_more_is_left_and_the_answer_is_new(stage):
    async with stage.bot():
        await stage.slack.say("write")
        (prompt,) = await stage.prompts(1)
        await stage.write(prompt, "s", "One. ")
        await stage.slack.until(stage.messages)
        stage.slack.refuse("chat.update", "edit_window_closed")
        await stage.answer(prompt, "One. Two.")
        await stage.delivered(1)
    assert stage.said() == [f"One. {CURSOR}", "One. Two."]


async def test_many_conversations_at_once_lose_double_and_swap_nothing(echoing):
    rooms = [echoing.world.channel(f"room {number}") for number in range(100)]

    async def stream() -> None:
        async for prompt in echoing.journal.tail(0, kinds=["ChatAfferent"]):
            await echoing.write(prompt, derive_id(prompt.id), "Thinking. ", "Still. ", complete=True)

    streaming = asyncio.create_task(stream())
    async with echoing.bot():
        for text in ("one", "two", "three"):
            for room in rooms:
                await echoing.slack.say(text, room)
        await echoing.delivered(3 * len(rooms))
        await echoing.acknowledged()
    streaming.cancel()
    for room in rooms:
        assert echoing.said(room) == [f"&lt;Ada: {text}&gt;" for text in ("one", "two", "three")]


async def test_the_loopback_slack_is_one_to_the_connection_of_the_sdk_too(stage):
    web = AsyncWebClient(stage.slack.bot_token, stage.slack.api)
    client = SocketModeClient(stage.slack.app_token, web_client=web)
    heard: asyncio.Queue = asyncio.Queue()

    async def listen(client, request) -> None:
        await client.send_socket_mode_response(SocketModeResponse(request.envelope_id))
        heard.put_nowait(request.payload["event"]["text"])

    client.socket_mode_request_listeners.append(listen)
    await client.connect()
    await stage.slack.say("hello", mention=False)
    assert await asyncio.wait_for(heard.get(), 60) == "hello"
    await stage.slack.ask_to_reconnect()
    await stage.slack.until(lambda: stage.slack.connections == 2)
    await stage.slack.say("again", mention=False)
    assert await asyncio.wait_for(heard.get(), 60) == "again"
    await stage.acknowledged()
    await client.close()
