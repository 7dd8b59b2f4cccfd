"""Questions of the agent: buttons, words and a command, and who has answered."""

from __future__ import annotations

import pytest

from branches.chat.entries import ChatQuestion
from tests.leaves.chats.slack.test_reliability import DiesBeforeAcknowledging, Killed

TEXT = "May I call shell.exec with {}?"


async def ask(stage, *choices: str, question: str = "q1", text: str = TEXT, approvers=()) -> None:
    entry = ChatQuestion(correlation_id=question, question=text, choices=choices, approvers=approvers)
    await stage.journal.append(entry, session=f"slack:{stage.world.general.id}")


def buttons(message) -> list[tuple[str, str]]:
    found = [element for block in message.blocks if block["type"] == "actions" for element in block["elements"]]
    return [(button["value"], button["text"]["text"]) for button in found]


async def test_choices_are_buttons_and_one_that_is_pressed_is_the_answer_of_a_user_by_id(stage):
    async with stage.bot():
        await ask(stage, "yes", "no")
        await stage.delivered(1)
        (message,) = stage.messages()
        assert buttons(message) == [("q1", "yes"), ("q1", "no")]
        await stage.slack.press(message, 1)
        assert await stage.answers() == [("q1", "no", stage.world.person("Ada").id)]
        await stage.slack.until(lambda: buttons(message) == [])
        await stage.acknowledged()
    question, below = message.blocks
    assert question["text"]["text"] == TEXT
    assert below["elements"][0]["text"] == "*Ada*: no"


async def test_what_is_asked_is_shown_to_the_letter_however_long(stage):
    text = "May I call shell.exec with {}?".format("*<!channel>* & " * 400)
    async with stage.bot():
        await ask(stage, "yes", "no", text=text)
        await stage.delivered(1)
    sections = [block["text"] for message in stage.messages() for block in message.blocks if "text" in block]
    assert "".join(section["text"] for section in sections) == text
    assert {section["type"] for section in sections} == {"plain_text"}
    assert [len(buttons(message)) for message in stage.messages()] == [0, 0, 2]


async def test_buttons_work_in_a_later_life(stage):
    async with stage.bot():
        await ask(stage, "yes", "no")
        await stage.delivered(1)
    (message,) = stage.messages()
    async with stage.bot():
        await stage.slack.press(message, 0, author="Grace")
        assert await stage.answers() == [("q1", "yes", stage.world.person("Grace").id)]
    assert stage.messages() == [message]


async def test_a_question_is_answered_once(stage):
    async with stage.bot():
        await ask(stage, "yes", "no")
        await stage.delivered(1)
        (message,) = stage.messages()
        pressed = dict(vars(message))["blocks"]
        await stage.slack.press(message, 0)
        await stage.answers()
        message.blocks = pressed
        await stage.slack.press(message, 1, author="Grace")
        (whisper,) = await stage.slack.until(lambda: stage.slack.whispers)
    assert (whisper["user"], whisper["text"]) == (
        stage.world.person("Grace").id,
        "No question is open here that this answers.",
    )
    assert [answer for _, answer, _ in await stage.answers()] == ["yes"]


async def test_a_press_that_comes_again_answers_once_also_in_a_later_life(stage):
    async with stage.bot(leaf=DiesBeforeAcknowledging) as life:
        await ask(stage, "yes", "no")
        await stage.delivered(1)
        await stage.slack.press(stage.messages()[0], 0)
        with pytest.raises(Killed):
            await life
    async with stage.bot():
        await stage.acknowledged()
        await ask(stage, "yes", "no", question="q2")
        await stage.delivered(2)
        await stage.slack.press(stage.messages()[1], 1)
        assert [found[:2] for found in await stage.answers(2)] == [("q1", "yes"), ("q2", "no")]


async def test_a_message_that_answered_is_no_prompt_when_it_comes_again_in_a_later_life(stage):
    async with stage.bot(leaf=DiesBeforeAcknowledging) as life:
        await ask(stage, "yes", "no")
        await stage.delivered(1)
        await stage.slack.say("yes")
        with pytest.raises(Killed):
            await life
    async with stage.bot():
        await stage.acknowledged()
        await stage.slack.say("next")
        (prompt,) = await stage.prompts(1)
    assert prompt.entry.text == "Ada: next"
    assert [answer for _, answer, _ in await stage.answers()] == ["yes"]


async def test_a_message_that_is_one_of_the_choices_answers_and_another_is_a_prompt(stage):
    async with stage.bot():
        await ask(stage, "yes", "no")
        await stage.delivered(1)
        await stage.slack.say("what would it do?")
        await stage.slack.say("YES")
        assert [answer for _, answer, _ in await stage.answers()] == ["yes"]
    (prompt,) = await stage.prompts(1)
    assert prompt.entry.text == "Ada: what would it do?"


async def test_a_question_without_choices_takes_any_text(stage):
    async with stage.bot():
        await ask(stage)
        await ask(stage, question="q2")
        await stage.delivered(2)
        await stage.slack.say("first answer")
        await stage.slack.say("second answer")
        assert [found[:2] for found in await stage.answers(2)] == [("q1", "first answer"), ("q2", "second answer")]
    assert buttons(stage.messages()[0]) == []


async def test_approve_answers_the_oldest_question(stage):
    async with stage.bot():
        await ask(stage, "yes", "no")
        await ask(stage, "yes", "no", question="q2")
        await stage.delivered(2)
        first = await stage.slack.command("/approve")
        await stage.slack.command("/approve", "no")
        third = await stage.slack.command("/approve")
        assert [found[:2] for found in await stage.answers(2)] == [("q1", "yes"), ("q2", "no")]
        await stage.acknowledged()
    assert stage.slack.acknowledged[first] == {"response_type": "in_channel", "text": "*Ada*: yes"}
    assert stage.slack.acknowledged[third]["text"] == "No question is open here that this answers."


async def test_a_button_counts_for_its_own_question_in_its_own_channel_only(stage):
    other = stage.world.channel("elsewhere")
    async with stage.bot():
        await ask(stage, "yes")
        await stage.delivered(1)
        (message,) = stage.messages()
        copied = stage.world.add(other, stage.world.bot, message.text, blocks=message.blocks)
        await stage.slack.press(copied, 0)
        await stage.slack.press(message, 0, value="q9")
        await stage.slack.press(message, 0, action_id="coven:7")
        await stage.slack.press(message, 0, action_id="another:0")
        await stage.slack.until(lambda: len(stage.slack.whispers) == 3)
        await stage.slack.press(message, 0, author="Grace")
        assert await stage.answers() == [("q1", "yes", stage.world.person("Grace").id)]


async def test_only_those_who_may_answer_do_and_the_question_stays_open_for_them(stage):
    ada = stage.world.person("Ada").id
    async with stage.bot(name_authors=True, listen="everything"):
        await ask(stage, "yes", "no", approvers=(ada,))
        await stage.delivered(1)
        (message,) = stage.messages()
        await stage.slack.press(message, 0, author="Mallory")
        (whisper,) = await stage.slack.until(lambda: stage.slack.whispers)
        assert whisper["text"] == "You are not one of those who may answer this."
        await stage.slack.say("yes", author="Mallory")
        (prompt,) = await stage.prompts(1)
        assert prompt.entry.text == "Mallory: yes"
        assert len(buttons(message)) == 2
        await stage.slack.press(message, 0)
        assert await stage.answers() == [("q1", "yes", ada)]
