"""What people say to the bot, and what it says to them."""

from __future__ import annotations

import pytest
from discord.errors import LoginFailure

from branches.attachment import Attachment
from branches.chat import ChatEfferentDraft, ChatUndelivered
from branches.secret import Secret
from coven.testing import ManualClock
from coven.testing.discord import Kind
from leaves.chats.discord.client import Bot
from leaves.chats.discord.pace import Pace

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


async def test_a_mention_is_a_prompt_and_its_answer_a_reply(echoing):
    async with echoing.bot():
        asked = await echoing.discord.say("hello")
        await echoing.delivered(1)
    (prompt,) = await echoing.prompts(1)
    (reply,) = echoing.messages()
    assert prompt.session == f"discord:{echoing.world.general.id}"
    assert (prompt.entry.sender, prompt.entry.text) == ("Ada", "Ada: hello")
    assert prompt.entry.message_id == str(asked.id)
    assert (reply.text, reply.reply_to) == ("<Ada: hello>", asked.id)
    assert len(reply.nonce) == 24


async def test_in_a_direct_message_nobody_need_be_mentioned(echoing):
    channel = echoing.world.channel("Ada", Kind.DIRECT)
    async with echoing.bot():
        await echoing.discord.say("hi", channel)
        await echoing.delivered(1)
    assert echoing.said(channel) == ["<Ada: hi>"]


async def test_a_thread_is_a_conversation_of_its_own_and_belongs_to_its_channel(echoing):
    thread = echoing.world.channel("side", Kind.THREAD, echoing.world.general)
    other = echoing.world.channel("elsewhere")
    stray = echoing.world.channel("side of elsewhere", Kind.THREAD, other)
    async with echoing.bot(channels=(str(echoing.world.general.id),)):
        await echoing.discord.say("nobody hears", other)
        await echoing.discord.say("nobody hears", stray)
        await echoing.discord.say("in the thread", thread)
        await echoing.discord.say("in the channel")
        await echoing.delivered(2)
    sessions = {prompt.session for prompt in await echoing.prompts(2)}
    assert sessions == {f"discord:{thread.id}", f"discord:{echoing.world.general.id}"}
    assert echoing.said(other) == echoing.said(stray) == []


async def test_a_thread_that_the_gateway_has_not_named_is_looked_up(echoing):
    async with echoing.bot(channels=(str(echoing.world.general.id),)):
        thread = echoing.world.channel("new", Kind.THREAD, echoing.world.general)
        await echoing.discord.say("hi", thread)
        await echoing.delivered(1)
    assert echoing.said(thread) == ["<Ada: hi>"]


async def test_bots_and_what_is_not_addressed_to_it_are_ignored(echoing):
    async with echoing.bot():
        await echoing.discord.say("I am a bot", author="Other bot", bot=True)
        await echoing.discord.say("not for you", mention=False)
        mine = await echoing.discord.say("for you")
        await echoing.delivered(1)
        answer = echoing.messages()[0]
        await echoing.discord.say("and this, by replying", mention=False, reply_to=answer)
        await echoing.discord.say("to somebody else", mention=False, reply_to=mine)
        await echoing.discord.say("last")
        await echoing.delivered(3)
    texts = [prompt.entry.text for prompt in await echoing.prompts(3)]
    assert texts == ["Ada: for you", "Ada: and this, by replying", "Ada: last"]


async def test_where_it_listens_to_everything_nobody_is_mentioned(echoing):
    async with echoing.bot(listen="everything", name_authors=False):
        await echoing.discord.say("anything", mention=False)
        await echoing.delivered(1)
    assert echoing.said() == ["<anything>"]


async def test_an_order_holds_within_a_channel_also_when_attachments_take_their_time(echoing):
    async with echoing.bot():
        await echoing.discord.say("look", files=[("notes.md", b"# Notes", "text/markdown")])
        await echoing.discord.say("and now this")
        await echoing.delivered(2)
    assert [prompt.entry.text for prompt in await echoing.prompts(2)] == [
        "Ada: look\n\n[attached: notes.md, text/markdown, 7 bytes]\n# Notes",
        "Ada: and now this",
    ]


async def test_attachments_are_named_and_their_text_is_given_up_to_a_limit(stage):
    files = [("a.txt", b"x" * 30, "text/plain"), ("b.png", b"\x89PNG", "image/png"), ("c.py", b"print()", "")]
    async with stage.bot(attachment_chars=20):
        await stage.discord.say("see", files=files)
        (prompt,) = await stage.prompts(1)
    assert prompt.entry.text.split("\n\n")[1:] == [
        f"[attached: a.txt, text/plain, 30 bytes, the first 20 of 30 characters]\n{'x' * 20}",
        "[attached: b.png, image/png, 4 bytes, not shown: it is not the image that it says it is]",
        "[attached: c.py, unknown type, 7 bytes, too long to show]",
    ]


async def test_an_image_is_recorded_with_its_bytes(stage):
    files = [("../chart.png", PNG, "image/png"), ("", PNG, "image/png"), ("none.png", b"", "image/png")]
    async with stage.bot():
        await stage.discord.say("what are these?", files=files)
        await stage.discord.say("", files=[("huge.png", PNG + bytes(10_000_000), "image/png")])
        seen, huge = await stage.prompts(2)
    assert [(each.name, each.media_type, each.body) for each in seen.entry.attachments] == [
        ("chart.png", "image/png", PNG),
        ("file", "image/png", PNG),
    ]
    assert seen.entry.text.endswith("[attached: none.png, image/png, 0 bytes, not shown: it is empty]")
    assert huge.entry.attachments == ()
    assert huge.entry.text.endswith("not shown: larger than 8 MiB]")


async def test_a_file_that_cannot_be_read_does_not_keep_the_message_back(stage):
    async with stage.bot():
        await stage.discord.say("look", files=[("a.png", PNG, "image/png"), ("b.txt", b"b", "")], expired=True)
        (prompt,) = await stage.prompts(1)
    assert prompt.entry.text.split("\n\n") == [
        "Ada: look",
        f"[attached: a.png, image/png, {len(PNG)} bytes, not shown: it could not be read]",
        "[attached: b.txt, unknown type, 1 bytes, not shown: it could not be read]",
    ]
    assert prompt.entry.attachments == ()


async def test_files_go_with_an_answer_and_are_sent_once(stage):
    report = Attachment("report.pdf", "application/pdf", b"%PDF-")
    large = [Attachment(f"{n}.zip", "application/zip", bytes([n]) * 6_000_000) for n in range(2)]
    async with stage.bot():
        await stage.discord.say("send it")
        (prompt,) = await stage.prompts(1)
        draft = ChatEfferentDraft(text="Here it is.", sender="keeper", attachments=(report, *large))
        await stage.journal.append(draft, session=prompt.session, cause=prompt)
        await stage.delivered(1)
    async with stage.bot():
        await stage.discord.say("thanks")
        await stage.prompts(2)
    first, second = stage.messages()
    assert (first.text, second.text) == ("Here it is.", "(attached: `1.zip`)")
    assert [(name, len(body)) for name, body, _ in (*first.files, *second.files)] == [
        ("report.pdf", 5),
        ("0.zip", 6_000_000),
        ("1.zip", 6_000_000),
    ]


async def test_a_long_answer_is_several_messages_and_only_the_first_replies(stage):
    text = "\n\n".join(f"Paragraph {number}. {'words ' * 60}" for number in range(12))
    async with stage.bot():
        asked = await stage.discord.say("tell me all")
        (prompt,) = await stage.prompts(1)
        await stage.answer(prompt, text)
        await stage.delivered(1)
    sent = stage.messages()
    assert len(sent) == 3
    assert all(len(message.text) <= 2000 for message in sent)
    assert "".join("".join(m.text for m in sent).split()) == "".join(text.split())
    assert [message.reply_to for message in sent] == [asked.id, None, None]
    assert len({message.nonce for message in sent}) == 3


async def test_long_code_and_very_long_answers_are_files(stage):
    code = "\n".join(f"line_{number} = {number}" for number in range(500))
    async with stage.bot(max_messages=2):
        await stage.discord.say("write a program")
        (prompt,) = await stage.prompts(1)
        await stage.answer(prompt, f"Here it is:\n```python\n{code}\n```\nEnjoy.")
        await stage.answer(prompt, "word " * 2000)
        await stage.delivered(2)
    program, essay = stage.messages()
    assert program.text == "Here it is:\n(attached: `code-1.py`)\nEnjoy."
    assert [(name, body) for name, body, _ in program.files] == [("code-1.py", f"{code}\n".encode())]
    assert essay.text.endswith("(the whole answer is attached: `answer.md`)")
    assert essay.files[0][1] == b"word " * 2000


async def test_an_empty_answer_says_so(stage):
    async with stage.bot():
        await stage.discord.say("hm")
        (prompt,) = await stage.prompts(1)
        await stage.answer(prompt, " \n")
        await stage.delivered(1)
    assert stage.said() == ["*(an empty answer)*"]


async def test_a_channel_that_is_gone_is_noted_and_others_go_on(stage):
    gone = stage.world.channel("soon gone")
    async with stage.bot():
        await stage.discord.say("first", gone)
        await stage.discord.say("second")
        first, second = await stage.prompts(2)
        del stage.world.channels[gone.id]
        await stage.answer(first, "nobody hears")
        (outcome,) = await stage.delivered(1)
        await stage.answer(second, "heard")
        await stage.delivered(2)
    assert isinstance(outcome.entry, ChatUndelivered)
    assert "Unknown Channel" in outcome.entry.error
    assert stage.said() == ["heard"]


async def test_a_session_that_is_no_channel_is_noted(stage):
    async with stage.bot():
        await stage.journal.append(ChatEfferentDraft(text="hi"), session="console")
        (outcome,) = await stage.delivered(1)
    assert "no conversation on Discord" in outcome.entry.error


async def test_typing_is_shown_while_an_answer_is_awaited(stage):
    clock = ManualClock()
    async with stage.bot(clock=clock):
        await stage.discord.say("think")
        (prompt,) = await stage.prompts(1)
        await stage.discord.until(lambda: len(stage.discord.typing) == 1)
        await clock.until_pending()
        clock.advance(8)
        await stage.discord.until(lambda: len(stage.discord.typing) == 2)
        await clock.until_pending()
        await stage.answer(prompt, "thought")
        await stage.delivered(1)
    assert clock.pending == 0


async def test_a_slash_command_is_a_prompt(echoing):
    async with echoing.bot(commands=True):
        assert sorted(command["name"] for command in echoing.discord.commands) == ["approve", "ask", "fork", "reset"]
        await echoing.discord.command("ask", text="what is new?")
        await echoing.delivered(1)
        (response,) = await echoing.discord.until(lambda: echoing.discord.responses)
    assert response["data"]["content"] == "**Ada**: what is new?"
    assert echoing.said() == ["<Ada: what is new?>"]


async def test_reset_begins_a_new_conversation_in_the_same_channel_for_good(echoing):
    async with echoing.bot(commands=True):
        await echoing.discord.say("one")
        await echoing.delivered(1)
        await echoing.discord.command("reset")
        await echoing.discord.until(lambda: echoing.discord.responses)
        await echoing.discord.say("two")
        await echoing.delivered(2)
    async with echoing.bot():
        await echoing.discord.say("three")
        await echoing.delivered(3)
    first, second, third = [prompt.session for prompt in await echoing.prompts(3)]
    assert first != second == third
    assert echoing.said() == ["<Ada: one>", "<Ada: two>", "<Ada: three>"]
    assert "began a new conversation" in echoing.discord.responses[0]["data"]["content"]


async def test_fork_goes_on_from_an_earlier_message_in_the_same_channel(echoing):
    async with echoing.bot(commands=True):
        for number, text in enumerate(("one", "two"), 1):
            await echoing.discord.say(text)
            await echoing.delivered(number)
        await echoing.discord.command("fork", back=1, text="another two")
        await echoing.delivered(3)
        await echoing.discord.until(lambda: echoing.discord.responses)
        await echoing.discord.command("fork", back=7)
        await echoing.discord.until(lambda: len(echoing.discord.responses) == 2)
        await echoing.discord.say("three")
        await echoing.delivered(4)
        _, two, other, three = await echoing.prompts(4)
    (forked,) = [record async for record in echoing.journal.read(kinds=["ChatForked"])]
    assert (forked.entry.parent, forked.entry.without) == (two.session, (two.id,))
    assert two.session != forked.session == other.session == three.session
    assert echoing.said() == ["<Ada: one>", "<Ada: two>", "<Ada: another two>", "<Ada: three>"]
    done, refused = [response["data"]["content"] for response in echoing.discord.responses]
    assert done == "**Ada** goes on from 1 message back, in another conversation: another two"
    assert refused == "Not forked: this conversation has 2 messages, so it cannot go back 7."


async def test_a_slash_command_is_not_taken_where_it_does_not_listen(echoing):
    other = echoing.world.channel("elsewhere")
    async with echoing.bot(commands=True, channels=(str(echoing.world.general.id),)):
        await echoing.discord.command("ask", other, text="what is new?")
        (response,) = await echoing.discord.until(lambda: echoing.discord.responses)
    assert response["data"]["content"] == "I do not listen here."
    assert echoing.said(other) == []


async def test_a_wrong_token_is_said(stage):
    wrong = Secret("${TOKEN}", {"TOKEN": "wrong"})
    with pytest.raises(LoginFailure):
        async with stage.bot(token=wrong):
            pass


async def test_what_it_says_notifies_nobody(echoing):
    async with echoing.bot():
        await echoing.discord.say("say @everyone")
        await echoing.delivered(1)
    (message,) = echoing.messages()
    assert (message.text, message.notifies) == ("<Ada: say @everyone>", ())


async def test_code_that_goes_over_several_messages_is_closed_and_opened_again(stage):
    code = "\n".join(f"line_{number} = {number}" for number in range(200))
    async with stage.bot():
        await stage.discord.say("write a program")
        (prompt,) = await stage.prompts(1)
        await stage.answer(prompt, f"Here it is:\n\n```python\n{code}\n```\n\nEnjoy.")
        await stage.delivered(1)
    sent = stage.said()
    assert len(sent) == 2
    assert all(text.count("```") == 2 for text in sent)
    assert sent[1].startswith("```python\n")
    lines = [line for text in sent for line in text.splitlines() if line.startswith("line_")]
    assert lines == code.splitlines()


async def test_what_is_still_told_when_the_bot_is_closed_reaches_nobody():
    told: list[str] = []
    pace = Pace(ManualClock(), 1)
    bot = Bot(
        lambda _: None, lambda: told.append("connected"), lambda: told.append("loaded"), commands=False, pace=pace
    )
    await bot.close()
    bot.dispatch("ready")
    assert told == []
