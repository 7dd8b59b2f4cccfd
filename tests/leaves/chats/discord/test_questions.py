"""Questions of the agent: buttons, words and a command, and who has answered."""

from __future__ import annotations

from branches.chat.entries import ChatQuestion

TEXT = "May I call shell.exec with {}?"


async def ask(stage, *choices: str, question: str = "q1", text: str = TEXT, approvers=()) -> None:
    entry = ChatQuestion(correlation_id=question, question=text, choices=choices, approvers=approvers)
    await stage.journal.append(entry, session=f"discord:{stage.world.general.id}")


def buttons(message) -> list[tuple[str, str]]:
    return [(button["custom_id"], button["label"]) for row in message.components for button in row["components"]]


async def test_choices_are_buttons_and_one_that_is_pressed_is_the_answer_of_a_user_by_id(stage):
    async with stage.bot():
        await ask(stage, "yes", "no")
        await stage.delivered(1)
        (message,) = stage.messages()
        assert buttons(message) == [("coven:0:q1", "yes"), ("coven:1:q1", "no")]
        await stage.discord.press(message, "coven:1:q1")
        assert await stage.answers() == [("q1", "no", str(stage.world.person("Ada").id))]
        await stage.discord.until(lambda: message.components == [])
    assert message.text == "May I call shell.exec with {}?\n**Ada**: no"


async def test_what_is_to_be_approved_is_shown_to_the_letter(stage):
    text = r'May I call fs.write_text with {"text":"||*x*|| [a](https://b) <@1> \n"}?'
    async with stage.bot():
        await ask(stage, "yes", "no", text=text)
        await stage.delivered(1)
        await ask(stage, question="q2", text="Which *one*?")
        await stage.delivered(2)
    first, second = stage.messages()
    assert first.text == (r'May I call fs.write\_text with {"text"\:"\|\|\*x\*\|\| \[a\](https\://b) \<\@1\> \\n"}?')
    assert second.text == "Which *one*?"


async def test_buttons_work_in_a_later_life(stage):
    async with stage.bot():
        await ask(stage, "yes", "no")
        await stage.delivered(1)
    (message,) = stage.messages()
    async with stage.bot():
        await stage.discord.press(message, "coven:0:q1", author="Grace")
        assert await stage.answers() == [("q1", "yes", str(stage.world.person("Grace").id))]
    assert stage.messages() == [message]


async def test_a_question_is_answered_once(stage):
    async with stage.bot():
        await ask(stage, "yes", "no")
        await stage.delivered(1)
        (message,) = stage.messages()
        await stage.discord.press(message, "coven:0:q1")
        await stage.discord.press(message, "coven:1:q1", author="Grace")
        responses = await stage.discord.until(lambda: stage.discord.responses[1:])
    assert responses[0]["data"]["content"] == "No question is open here that this answers."
    assert [answer for _, answer, _ in await stage.answers()] == ["yes"]


async def test_a_message_that_is_one_of_the_choices_answers_and_another_is_a_prompt(stage):
    async with stage.bot():
        await ask(stage, "yes", "no")
        await stage.delivered(1)
        await stage.discord.say("what would it do?")
        await stage.discord.say("YES")
        assert [answer for _, answer, _ in await stage.answers()] == ["yes"]
    (prompt,) = await stage.prompts(1)
    assert prompt.entry.text == "Ada: what would it do?"


async def test_a_question_without_choices_takes_any_text(stage):
    async with stage.bot():
        await ask(stage)
        await ask(stage, question="q2")
        await stage.delivered(2)
        await stage.discord.say("first answer")
        await stage.discord.say("second answer")
        assert [found[:2] for found in await stage.answers(2)] == [("q1", "first answer"), ("q2", "second answer")]
    assert buttons(stage.messages()[0]) == []


async def test_approve_answers_the_oldest_question(stage):
    async with stage.bot(commands=True):
        assert sorted(command["name"] for command in stage.discord.commands) == ["approve", "ask", "fork", "reset"]
        await ask(stage, "yes", "no")
        await ask(stage, "yes", "no", question="q2")
        await stage.delivered(2)
        await stage.discord.command("approve")
        await stage.discord.command("approve", answer="no")
        assert [found[:2] for found in await stage.answers(2)] == [("q1", "yes"), ("q2", "no")]
        await stage.discord.until(lambda: len(stage.discord.responses) == 2)


async def test_buttons_that_are_not_ours_are_left_alone(stage):
    async with stage.bot():
        await ask(stage, "yes")
        await stage.delivered(1)
        (message,) = stage.messages()
        await stage.discord.press(message, "another:0:q1")
        await stage.discord.press(message, "coven:x:q1")
        await stage.discord.press(message, "coven:0:q1")
        assert len(await stage.answers()) == 1
        await stage.discord.until(lambda: message.components == [])
    assert len(stage.discord.responses) == 1


async def test_only_those_who_may_answer_do_and_the_question_stays_open_for_them(stage):
    ada = str(stage.world.person("Ada").id)
    async with stage.bot(name_authors=True, listen="everything"):
        await ask(stage, "yes", "no", approvers=(ada,))
        await stage.delivered(1)
        (message,) = stage.messages()
        await stage.discord.press(message, "coven:0:q1", author="Mallory")
        responses = await stage.discord.until(lambda: stage.discord.responses)
        assert responses[0]["data"]["content"] == "You are not one of those who may answer this."
        await stage.discord.say("yes", author="Mallory")
        (prompt,) = await stage.prompts(1)
        assert prompt.entry.text == "Mallory: yes"
        assert len(buttons(message)) == 2
        await stage.discord.press(message, "coven:0:q1")
        assert await stage.answers() == [("q1", "yes", ada)]
