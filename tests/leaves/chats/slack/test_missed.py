"""What people say while no coven runs, or while Slack cannot reach it, is a prompt all the same: once, and in order."""

from __future__ import annotations

import logging
import time

import pytest

from branches.chat.entries import ChatQuestion
from coven.testing import ManualClock
from coven.testing.slack import Message
from leaves.chats.slack.leaf import Slack
from tests.leaves.chats.slack.test_reliability import DiesAfterSending, DiesBeforeAcknowledging, Killed

HOUR = 3600.0


class DiesBehindTheSecond(Slack):
    """Dies between the second message that was missed and the third."""

    left = 2

    async def _hear(self, message):
        if not self.left:
            raise Killed
        self.left -= 1
        await super()._hear(message)


async def say(stage, text: str, channel=None, **more) -> Message:
    """Somebody says something while nobody listens, and Slack gives up."""
    said = await stage.slack.say(text, channel, **more)
    stage.slack.give_up()
    return said


async def heard(stage, count: int) -> list[str]:
    """What the first prompts say, without who says it."""
    return [prompt.entry.text.removeprefix("Ada: ") for prompt in await stage.prompts(count)]


def long_ago(stage, *texts: str) -> list[Message]:
    """What somebody said in a channel when an earlier coven ran."""
    ada, general = stage.world.person("Ada"), stage.world.general
    said = [Message(f"{time.time() - 2 * HOUR + n:.6f}", general, ada, text) for n, text in enumerate(texts)]
    stage.world.messages |= {(general.id, message.ts): message for message in said}
    return said


async def spoken(stage, *channels) -> None:
    """An earlier life in which the app was spoken to in these channels."""
    async with stage.bot():
        for channel in channels:
            await stage.slack.say("earlier", channel)
        await stage.prompts(len(channels))
        await stage.acknowledged()
        await stage.slack.until(lambda: len(stage.asked("users.conversations")) == 4)


async def test_what_was_said_while_no_coven_ran_is_answered_once_and_in_order(echoing):
    for text in ("one", "two"):
        await say(echoing, text)
    await say(echoing, "not for the bot", mention=False)
    await say(echoing, "from another bot", author="Other", bot=True)
    async with echoing.bot():
        await echoing.delivered(2)
        await echoing.slack.say("three")
        await echoing.delivered(3)
    await say(echoing, "four")
    async with echoing.bot():
        await echoing.slack.say("five")
        await echoing.delivered(5)
    assert echoing.said() == [f"&lt;Ada: {text}&gt;" for text in ("one", "two", "three", "four", "five")]


async def test_a_direct_message_of_somebody_who_has_never_spoken_to_it_is_found(stage):
    channel = stage.world.channel("Ada", direct=True)
    said = await say(stage, "hello?", channel)
    async with stage.bot():
        (prompt,) = await stage.prompts(1)
    assert (prompt.session, prompt.entry.text) == (f"slack:{channel.id}", "Ada: hello?")
    assert prompt.entry.message_id == f"{channel.id}:{said.ts}"


@pytest.mark.parametrize("said_live", [False, True])
async def test_what_is_new_waits_for_what_was_missed_in_its_channel(stage, said_live):
    """What Slack still sends again, and what it sends for the first time, come behind what it has given up."""
    await say(stage, "one")
    await say(stage, "two")
    if not said_live:
        await stage.slack.say("three")
    async with stage.bot():
        if said_live:
            await stage.slack.say("three")
        await stage.prompts(3)
        await stage.acknowledged()
        await stage.slack.say("four")
        assert await heard(stage, 4) == ["one", "two", "three", "four"]


async def test_the_threads_of_a_channel_are_looked_at_too(stage):
    lost, old, *_ = long_ago(stage, *map(str, range(198)))
    root = await say(stage, "about this", mention=False)
    await say(stage, "in a thread that is too old", thread=lost)
    await say(stage, "in an old thread", thread=old)
    await say(stage, "in the channel")
    reply = await say(stage, "in a new thread, and for all", thread=root, broadcast=True)
    await say(stage, "among people", thread=root, mention=False)
    async with stage.bot():
        first, second, third = await stage.prompts(3)
        await stage.slack.say("last")
        texts = ["in an old thread", "in the channel", "in a new thread, and for all", "last"]
        assert await heard(stage, 4) == texts
    general = stage.world.general.id
    sessions = [f"slack:{general}:{old.ts}", f"slack:{general}", f"slack:{general}:{root.ts}"]
    assert [first.session, second.session, third.session] == sessions
    assert third.entry.message_id == f"{general}:{reply.ts}"


async def test_a_thread_that_is_known_by_a_reply_in_the_channel_is_looked_at_however_long_ago_it_began(stage):
    root, *_ = long_ago(stage, *map(str, range(300)))
    await say(stage, "in the thread", thread=root)
    await say(stage, "for all", thread=root, broadcast=True)
    async with stage.bot():
        assert await heard(stage, 2) == ["in the thread", "for all"]


async def test_a_thread_that_is_known_is_looked_at_however_long_ago_it_began(stage):
    root, *_ = long_ago(stage, *map(str, range(300)))
    async with stage.bot():
        await stage.slack.say("in the thread", thread=root)
        await stage.prompts(1)
        await stage.acknowledged()
    await say(stage, "and now?", thread=root)
    async with stage.bot():
        assert await heard(stage, 2) == ["in the thread", "and now?"]


async def test_the_first_message_of_a_thread_is_one_of_its_channel(stage):
    root = await say(stage, "a question")
    await say(stage, "among people", thread=root, mention=False)
    async with stage.bot():
        (prompt,) = await stage.prompts(1)
        await stage.slack.say("next")
        assert await heard(stage, 2) == ["a question", "next"]
    assert prompt.session == f"slack:{stage.world.general.id}"


async def test_with_threads_what_was_missed_begins_them_and_goes_on_in_them(stage):
    root = await say(stage, "a question")
    await say(stage, "and more", thread=root, mention=False)
    async with stage.bot(threads=True):
        prompts = await stage.prompts(2)
    assert {prompt.session for prompt in prompts} == {f"slack:{stage.world.general.id}:{root.ts}"}


async def test_more_than_a_page_of_it_is_read(stage):
    for number in range(250):
        await say(stage, str(number))
    async with stage.bot():
        assert await heard(stage, 250) == [str(number) for number in range(250)]


async def test_files_come_with_what_was_missed(stage):
    await say(stage, "see", files=[("a.txt", b"text", "text/plain")])
    async with stage.bot():
        (prompt,) = await stage.prompts(1)
    assert prompt.entry.text == "Ada: see\n\n[attached: a.txt, text/plain, 4 bytes]\ntext"


async def test_a_question_that_was_answered_meanwhile_is_answered(stage):
    async with stage.bot():
        question = ChatQuestion(correlation_id="q1", question="May I?", choices=("yes", "no"))
        await stage.journal.append(question, session=f"slack:{stage.world.general.id}")
        await stage.delivered(1)
        await stage.acknowledged()
    await say(stage, "yes")
    async with stage.bot():
        assert await stage.answers() == [("q1", "yes", stage.world.person("Ada").id)]


async def test_what_comes_behind_a_command_is_not_heard_before_it(stage):
    async with stage.bot():
        await stage.slack.say("one")
        await stage.prompts(1)
        await stage.acknowledged()
    await say(stage, "two")
    async with stage.bot():
        await stage.slack.command("/reset")
        await stage.slack.say("three")
        one, two, three = await stage.prompts(3)
    assert [prompt.entry.text for prompt in (one, two, three)] == ["Ada: one", "Ada: two", "Ada: three"]
    assert one.session == two.session != three.session


@pytest.mark.parametrize(("seconds", "expected"), [(HOUR - 60, ["before", "now"]), (HOUR + 60, ["now"])])
async def test_what_was_said_longer_ago_is_left_alone(stage, seconds, expected):
    await say(stage, "before")
    async with stage.bot(clock=ManualClock(time.time() + seconds)):
        await stage.slack.say("now")
        assert await heard(stage, len(expected)) == expected


async def test_nothing_is_looked_at_where_that_is_not_wanted(stage):
    await say(stage, "before")
    async with stage.bot(catch_up_s=0):
        await stage.slack.say("now")
        assert await heard(stage, 1) == ["now"]
        await stage.slack.drop()
        await stage.slack.until(lambda: stage.slack.connections == 2)
        await stage.slack.say("later")
        assert await heard(stage, 2) == ["now", "later"]
    assert stage.asked("conversations.history") == stage.asked("users.conversations") == []


async def test_only_conversations_that_it_listens_to_are_looked_at(stage):
    other, direct = stage.world.channel("elsewhere"), stage.world.channel("Ada", direct=True)
    for channel in (other, direct, stage.world.general):
        await say(stage, "hello", channel)
    async with stage.bot(channels=(other.id,), direct_messages=False):
        (prompt,) = await stage.prompts(1)
        await stage.slack.say("here", other)
        await stage.prompts(2)
    assert prompt.session == f"slack:{other.id}"
    assert {given["channel"] for given in stage.asked("conversations.history")} == {other.id}
    assert stage.asked("users.conversations") == []


async def test_without_the_scopes_for_it_known_conversations_are_looked_at_and_that_is_said(stage, caplog):
    known, unknown = (stage.world.channel(name, direct=True) for name in ("Ada", "Grace"))
    await spoken(stage, known)
    stage.slack.scopes -= {"im:read", "groups:read"}
    await say(stage, "missed", unknown)
    await say(stage, "and now?", known)
    caplog.clear()
    async with stage.bot():
        assert await heard(stage, 2) == ["earlier", "and now?"]
        await stage.slack.until(lambda: len(stage.asked("users.conversations")) == 4 + 4)
        await stage.slack.say("are you there?", unknown)
        assert await heard(stage, 4) == ["earlier", "and now?", "missed", "are you there?"]
        await stage.slack.drop()
        await stage.slack.until(lambda: len(stage.asked("users.conversations")) == 4 + 4 + 4)
    told = [record.getMessage() for record in caplog.records if "scope" in record.getMessage()]
    assert told == [
        "what was missed is looked for in conversations that are known, not in all that the bot is in; "
        "add the scope im:read, groups:read to the app and install it again"
    ]


async def test_a_channel_that_may_not_be_read_keeps_no_other_back(stage, caplog):
    left, private = stage.world.channel("left"), stage.world.channel("private", private=True)
    await spoken(stage, left, private)
    left.member = False
    stage.slack.scopes.discard("groups:history")
    await say(stage, "here")
    async with stage.bot():
        await stage.slack.say("there", private)
        assert set(await heard(stage, 4)) == {"earlier", "here", "there"}
    told = [record.getMessage() for record in caplog.records if "groups:history" in record.getMessage()]
    assert len(told) == 1


async def test_when_slack_is_away_that_is_waited_for(stage):
    clock = ManualClock(time.time())
    await say(stage, "one")
    stage.slack.refuse("conversations.history", "internal_error")
    async with stage.bot(clock=clock):
        await stage.slack.say("two")
        await clock.until_pending()
        stage.slack.refuse("conversations.history", None)
        clock.advance(5)
        assert await heard(stage, 2) == ["one", "two"]


async def test_a_token_that_is_revoked_loses_nothing(stage):
    await say(stage, "hello")
    stage.slack.refuse("conversations.history", "token_revoked")
    async with stage.bot() as life:
        with pytest.raises(Exception, match="token_revoked"):
            await life
    stage.slack.refuse("conversations.history", None)
    async with stage.bot():
        assert await heard(stage, 1) == ["hello"]


async def test_many_conversations_are_looked_at_one_after_the_other_direct_messages_first(stage):
    clock = ManualClock(time.time())
    rooms = [stage.world.channel(f"room {number}") for number in range(20)]
    direct = [stage.world.channel(f"person {number}", direct=True) for number in range(20)]
    await spoken(stage, rooms[-1])
    for channel in (*rooms, *direct):
        await say(stage, channel.name, channel)
    stage.slack.requests.clear()
    async with stage.bot(clock=clock):
        await clock.until_pending()
        found = set(await heard(stage, 20))
        assert found == {"earlier", rooms[-1].name, *(channel.name for channel in direct[:18])}
        for _ in range(25):
            await clock.until_pending()
            clock.advance(1.5)
        await stage.prompts(41)
    assert len(stage.asked("conversations.history")) == 41


async def test_after_a_connection_that_was_lost_what_slack_has_given_up_is_found(stage):
    clock = ManualClock(time.time())
    async with stage.bot(clock=clock):
        await stage.slack.say("before")
        await stage.prompts(1)
        await stage.acknowledged()
        stage.slack.refuse("apps.connections.open", "internal_error")
        await stage.slack.drop()
        await clock.until_pending()
        for channel in (stage.world.general, stage.world.channel("Ada", direct=True)):
            await say(stage, "meanwhile", channel)
        stage.slack.refuse("apps.connections.open", None)
        clock.advance(5)
        assert await heard(stage, 3) == ["before", "meanwhile", "meanwhile"]
        await stage.slack.say("after")
        assert (await heard(stage, 4))[-1] == "after"


async def test_a_connection_that_slack_asks_for_is_no_reason_to_look_unless_there_is_none_at_once(stage):
    clock = ManualClock(time.time())
    async with stage.bot(clock=clock):
        await stage.slack.until(lambda: len(stage.asked("users.conversations")) == 4)
        await stage.slack.ask_to_reconnect()
        await stage.slack.until(lambda: stage.slack.connections == 2 and stage.slack.open == 1)
        await stage.slack.say("one")
        await stage.prompts(1)
        assert len(stage.asked("conversations.history")) == 1
        stage.slack.refuse("apps.connections.open", "internal_error")
        await stage.slack.ask_to_reconnect()
        await clock.until_pending()
        await say(stage, "two")
        stage.slack.refuse("apps.connections.open", None)
        clock.advance(5)
        assert await heard(stage, 2) == ["one", "two"]


async def test_what_slack_sends_again_and_what_stands_there_is_one_prompt(echoing):
    async with echoing.bot(leaf=DiesBeforeAcknowledging) as life:
        await echoing.slack.say("one")
        with pytest.raises(Killed):
            await life
    await echoing.slack.say("two")
    async with echoing.bot():
        await echoing.delivered(2)
        await echoing.acknowledged()
        await echoing.slack.again()
        await echoing.slack.drop()
        await echoing.slack.say("three")
        await echoing.delivered(3)
        await echoing.acknowledged()
        await echoing.slack.until(lambda: len(echoing.asked("conversations.history")) >= 2)
    async with echoing.bot():
        await echoing.slack.say("four")
        await echoing.delivered(4)
    assert await heard(echoing, 4) == ["one", "two", "three", "four"]
    assert len(echoing.said()) == 4


async def test_one_that_is_killed_while_it_catches_up_goes_on_where_it_was(echoing):
    texts = ["one", "two", "three"]
    for text in texts:
        await say(echoing, text)
    async with echoing.bot(leaf=DiesBehindTheSecond) as life:
        with pytest.raises(Killed):
            await life
    async with echoing.bot():
        await echoing.delivered(3)
    assert await heard(echoing, 3) == texts
    assert echoing.said() == [f"&lt;Ada: {text}&gt;" for text in texts]


async def test_the_answer_to_what_was_missed_is_sent_once_too(stage):
    await say(stage, "hello")
    async with stage.bot(leaf=DiesAfterSending) as life:
        (prompt,) = await stage.prompts(1)
        await stage.answer(prompt, "the answer")
        with pytest.raises(Killed):
            await life
    async with stage.bot():
        await stage.delivered(1)
    assert stage.said() == ["the answer"]


@pytest.fixture(autouse=True)
def _logged(caplog):
    caplog.set_level(logging.INFO, "coven.chat")
