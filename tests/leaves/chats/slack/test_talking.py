"""What people say to the bot, and what it says to them."""

from __future__ import annotations

import pytest

from branches.attachment import Attachment
from branches.chat import ChatEfferentDraft, ChatUndelivered
from branches.secret import Secret
from leaves.chats.slack.failures import SetupError
from leaves.chats.slack.leaf import Slack

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


async def test_a_mention_is_a_prompt_and_is_answered_in_its_channel(echoing):
    async with echoing.bot():
        asked = await echoing.slack.say("hello")
        await echoing.delivered(1)
        await echoing.acknowledged()
    (prompt,) = await echoing.prompts(1)
    (reply,) = echoing.messages()
    assert prompt.session == f"slack:{echoing.world.general.id}"
    assert (prompt.entry.sender, prompt.entry.text) == ("Ada", "Ada: hello")
    assert prompt.entry.message_id == f"{echoing.world.general.id}:{asked.ts}"
    assert reply.text == "&lt;Ada: hello&gt;"
    assert reply.metadata["event_payload"]["prompt"] == prompt.id


async def test_in_a_direct_message_nobody_need_be_mentioned(echoing):
    channel = echoing.world.channel("Ada", direct=True)
    async with echoing.bot():
        await echoing.slack.say("hi", channel)
        await echoing.delivered(1)
    assert echoing.said(channel) == ["&lt;Ada: hi&gt;"]


async def test_a_thread_is_a_conversation_of_its_own(echoing):
    async with echoing.bot():
        root = await echoing.slack.say("people talk", mention=False)
        await echoing.slack.say("in the thread", thread=root)
        await echoing.slack.say("in the channel")
        await echoing.delivered(2)
    general = echoing.world.general
    assert {prompt.session for prompt in await echoing.prompts(2)} == {
        f"slack:{general.id}:{root.ts}",
        f"slack:{general.id}",
    }
    assert echoing.said(thread=root) == ["&lt;Ada: in the thread&gt;"]
    assert echoing.said() == ["&lt;Ada: in the channel&gt;"]


async def test_with_threads_each_message_of_a_channel_begins_one_in_which_nobody_is_mentioned_again(echoing):
    async with echoing.bot(threads=True):
        root = await echoing.slack.say("hello")
        await echoing.delivered(1)
        await echoing.slack.say("go on", thread=root, mention=False)
        await echoing.delivered(2)
    async with echoing.bot(threads=True):
        await echoing.slack.say("still there?", thread=root, mention=False)
        await echoing.delivered(3)
    assert len({prompt.session for prompt in await echoing.prompts(3)}) == 1
    assert len(echoing.said(thread=root)) == 3
    assert echoing.said() == []


async def test_a_reply_to_a_message_of_the_bot_is_meant_for_it(echoing):
    async with echoing.bot():
        await echoing.slack.say("hello")
        await echoing.delivered(1)
        (answer,) = echoing.messages()
        await echoing.slack.say("why?", thread=answer, mention=False)
        await echoing.delivered(2)
    assert echoing.said(thread=answer) == ["&lt;Ada: why?&gt;"]


async def test_bots_edits_and_what_is_not_addressed_to_it_are_ignored_and_acknowledged(echoing):
    general, ada = echoing.world.general, echoing.world.person("Ada")
    async with echoing.bot(listen="everything"):
        await echoing.slack.say("I am a bot", author="Other bot", bot=True)
        said = await echoing.slack.say("for you", mention=False)
        await echoing.slack.event(
            {"type": "message", "subtype": "message_changed", "channel": general.id, "ts": said.ts, "message": {}}
        )
        await echoing.slack.event(
            {"type": "message", "subtype": "channel_join", "channel": general.id, "ts": "1.1", "user": ada.id}
        )
        await echoing.slack.event({"type": "app_home_opened", "user": ada.id})
        await echoing.slack.send("another_type", {})
        await echoing.delivered(1)
        await echoing.acknowledged()
    async with echoing.bot():
        await echoing.slack.say("not for you", mention=False)
        await echoing.slack.say("last")
        await echoing.delivered(2)
    assert [prompt.entry.text for prompt in await echoing.prompts(2)] == ["Ada: for you", "Ada: last"]


async def test_only_some_channels_are_listened_to(echoing):
    other, direct = echoing.world.channel("elsewhere"), echoing.world.channel("Ada", direct=True)
    async with echoing.bot(channels=(echoing.world.general.id,), direct_messages=False):
        await echoing.slack.say("nobody hears", other)
        await echoing.slack.say("nobody hears", direct)
        await echoing.slack.say("heard")
        await echoing.delivered(1)
        await echoing.acknowledged()
    assert [prompt.entry.text for prompt in await echoing.prompts(1)] == ["Ada: heard"]


async def test_names_and_links_are_told_to_the_model_as_people_read_them(stage):
    grace = stage.world.person("Grace")
    async with stage.bot():
        await stage.slack.say(f"ask <@{grace.id}> about <https://a.b/c|the page> &amp; <#C9|news> <!here> 1 &lt; 2")
        (prompt,) = await stage.prompts(1)
    assert prompt.entry.text == "Ada: ask @Grace about the page (https://a.b/c) & #news @here 1 < 2"


async def test_who_may_not_be_named_is_told_by_id(stage):
    stage.slack.scopes.discard("users:read")
    async with stage.bot():
        await stage.slack.say("hello")
        (prompt,) = await stage.prompts(1)
    assert prompt.entry.text == f"{stage.world.person('Ada').id}: hello"


async def test_attachments_are_named_and_their_text_is_given_up_to_a_limit(stage):
    files = [("a.txt", b"x" * 30, "text/plain"), ("b.png", PNG, "image/png"), ("c.zip", b"PK", "application/zip")]
    async with stage.bot(attachment_chars=20):
        await stage.slack.say("see", files=files)
        (prompt,) = await stage.prompts(1)
    assert prompt.entry.text.split("\n\n")[1:] == [
        f"[attached: a.txt, text/plain, 30 bytes, the first 20 of 30 characters]\n{'x' * 20}",
        f"[attached: b.png, image/png, {len(PNG)} bytes]",
        "[attached: c.zip, application/zip, 2 bytes]",
    ]
    assert [(image.name, image.body) for image in prompt.entry.attachments] == [("b.png", PNG)]


async def test_a_file_that_the_app_may_not_read_is_said_to_be_so(stage):
    stage.slack.scopes.discard("files:read")
    async with stage.bot():
        await stage.slack.say("see", files=[("a.txt", b"text", "text/plain")])
        (prompt,) = await stage.prompts(1)
    assert prompt.entry.text.endswith("[attached: a.txt, text/plain, 4 bytes, not shown: it could not be read]")


async def test_a_long_answer_is_several_messages(stage):
    text = "\n\n".join(f"Paragraph {number}. {'words & more ' * 60}" for number in range(12))
    async with stage.bot():
        await stage.slack.say("tell me all")
        (prompt,) = await stage.prompts(1)
        await stage.answer(prompt, text)
        await stage.delivered(1)
    sent = stage.messages()
    assert all(len(message.text) <= 4000 for message in sent)
    assert "".join("".join(m.text for m in sent).split()) == "".join(text.replace("&", "&amp;").split())
    assert [message.metadata["event_payload"]["part"] for message in sent] == list(range(len(sent)))


async def test_an_empty_answer_says_so(stage):
    async with stage.bot():
        await stage.slack.say("hm")
        (prompt,) = await stage.prompts(1)
        await stage.answer(prompt, " \n")
        await stage.delivered(1)
    assert stage.said() == ["_(an empty answer)_"]


async def test_a_channel_without_the_bot_is_noted_and_others_go_on(stage):
    left = stage.world.channel("soon left")
    async with stage.bot():
        await stage.slack.say("first", left)
        await stage.slack.say("second")
        first, second = await stage.prompts(2)
        left.member = False
        await stage.answer(first, "nobody hears")
        (outcome,) = await stage.delivered(1)
        await stage.answer(second, "heard")
        await stage.delivered(2)
    assert isinstance(outcome.entry, ChatUndelivered)
    assert outcome.entry.error == "Slack refuses chat.postMessage: not_in_channel (invite the bot there)"
    assert stage.said() == ["heard"]


async def test_a_session_that_is_no_channel_is_noted(stage):
    async with stage.bot():
        await stage.journal.append(ChatEfferentDraft(text="hi"), session="console")
        (outcome,) = await stage.delivered(1)
    assert "no conversation on Slack" in outcome.entry.error


async def test_a_slash_command_is_a_prompt_and_is_shown(echoing):
    async with echoing.bot():
        envelope = await echoing.slack.command("/ask", "what is new?")
        await echoing.delivered(1)
        told = await echoing.slack.until(lambda: echoing.slack.acknowledged.get(envelope))
    assert told == {"response_type": "in_channel", "text": "*Ada*: what is new?"}
    assert echoing.said() == ["&lt;Ada: what is new?&gt;"]


async def test_a_slash_command_may_have_a_prefix_and_wants_words(stage):
    other = stage.world.channel("elsewhere")
    async with stage.bot(channels=(stage.world.general.id,)):
        sent = [
            await stage.slack.command("/hearth-ask"),
            await stage.slack.command("/hearth-dance"),
            await stage.slack.command("/ask", "what is new?", other),
        ]
        await stage.acknowledged()
    assert [stage.slack.acknowledged[envelope]["text"] for envelope in sent] == [
        "What do you want to ask? `/hearth-ask what is new?`",
        "I know no /hearth-dance.",
        "I do not listen here.",
    ]


async def test_reset_begins_a_new_conversation_in_the_same_channel_for_good(echoing):
    async with echoing.bot():
        await echoing.slack.say("one")
        await echoing.delivered(1)
        envelope = await echoing.slack.command("/reset")
        told = await echoing.slack.until(lambda: echoing.slack.acknowledged.get(envelope))
        await echoing.slack.say("two")
        await echoing.delivered(2)
    async with echoing.bot():
        await echoing.slack.say("three")
        await echoing.delivered(3)
    first, second, third = [prompt.session for prompt in await echoing.prompts(3)]
    assert first != second == third
    assert len(echoing.said()) == 3
    assert "began a new conversation" in told["text"]


async def test_a_fork_goes_on_from_an_earlier_moment_where_the_coven_forks(stage):
    async with stage.bot(forks=False):
        sent = [await stage.slack.command("/fork", text) for text in ("", "2")]
        await stage.acknowledged()
    assert [stage.slack.acknowledged[envelope]["text"] for envelope in sent] == [
        "this coven does not fork: its covenant has no route `ChatForked -&gt; AgentFork`",
        "this coven does not fork: its covenant has no route `ChatForked -&gt; AgentFork`",
    ]
    async with stage.bot():
        for number in (1, 2):
            await stage.slack.say(str(number))
        await stage.prompts(2)
        envelope = await stage.slack.command("/fork", "1 another 2")
        told = await stage.slack.until(lambda: stage.slack.acknowledged.get(envelope))
        await stage.slack.say("3")
        first, second, other, third = await stage.prompts(4)
    assert told["text"] == "*Ada* goes on from 1 message back, in another conversation: another 2"
    assert other.entry.text == "Ada: another 2"
    assert first.session == second.session != other.session == third.session


@pytest.mark.parametrize(
    ("change", "code", "what_to_do"),
    [
        (lambda slack: {"bot_token": "xoxb-wrong"}, "invalid_auth", "set SLACK_BOT_TOKEN to the bot token"),
        (lambda slack: {"app_token": "xapp-wrong"}, "invalid_auth", "set SLACK_APP_TOKEN to the app-level token"),
        (lambda slack: {"app_token": slack.bot_token}, "not_allowed_token_type", "set SLACK_APP_TOKEN to"),
        (lambda slack: slack.scopes.clear(), "missing_scope", "add the scope chat:write to the app and install it"),
        (lambda slack: setattr(slack, "mode", False), "socket_mode_not_enabled", "switch Socket Mode on"),
    ],
)
async def test_what_is_wrong_with_tokens_and_the_app_is_said_at_the_start(stage, change, code, what_to_do):
    tokens = {name: Secret("${T}", {"T": token}) for name, token in (change(stage.slack) or {}).items()}
    with pytest.raises(SetupError) as caught:
        async with stage.bot(**tokens):
            pass
    assert caught.value.code == code
    assert what_to_do in str(caught.value)


async def test_files_of_an_answer_are_shown_by_a_message_behind_it_and_are_sent_once(stage):
    files = (Attachment("a|b.png", "image/png", PNG), Attachment("<c>.csv", "text/csv", b"1,2"))

    class Dies(Slack):
        async def deliver(self, message):
            await super().deliver(message)
            raise RuntimeError("killed")

    async with stage.bot(leaf=Dies) as life:
        await stage.slack.say("draw")
        (prompt,) = await stage.prompts(1)
        draft = ChatEfferentDraft(text="Here:", attachments=files)
        await stage.journal.append(draft, session=prompt.session, cause=prompt)
        with pytest.raises(RuntimeError, match="killed"):
            await life
    async with stage.bot():
        await stage.delivered(1)
    said, shown = stage.messages()
    assert (said.text, said.files) == ("Here:", [])
    assert [(name, body) for name, body, _ in shown.files] == [("a|b.png", PNG), ("<c>.csv", b"1,2")]
    assert [line.partition("|")[2] for line in shown.text.splitlines()] == ["a/b.png>", "&lt;c&gt;.csv>"]


async def test_a_file_that_slack_does_not_take_is_named_and_the_answer_is_sent(stage):
    stage.slack.scopes.discard("files:write")
    async with stage.bot():
        await stage.slack.say("draw")
        (prompt,) = await stage.prompts(1)
        draft = ChatEfferentDraft(text="", attachments=(Attachment("c.csv", "text/csv", b"1,2"),))
        await stage.journal.append(draft, session=prompt.session, cause=prompt)
        await stage.delivered(1)
    assert stage.said() == ["(c.csv could not be sent: missing_scope)"]
