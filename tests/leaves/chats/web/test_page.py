"""The page, in a real browser of the size of a phone."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from branches.attachment import Attachment
from branches.chat import ChatEfferentDraft
from tests.leaves.chats.web.browser import CHROMIUM, browsing

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=")
CONNECTED = "document.getElementById('state').textContent === 'connected'"


@pytest.fixture
async def tab(tmp_path: Path):
    async with browsing(tmp_path / "browser") as opened:
        yield opened
        if (folder := os.environ.get("COVEN_PICTURES")) is not None:
            await opened.picture(Path(folder) / f"{os.environ['PYTEST_CURRENT_TEST'].split('::')[1].split()[0]}.png")


async def talk(place, tab, text: str = "hello"):
    """Send a message; gives its record."""
    await tab.type(text)
    await tab.press("Enter")
    return await place.heard(text)


async def test_a_person_asks_sees_the_answer_being_written_and_then_once(place, tab):
    async with place(title="Hearth") as opened:
        await tab.open(opened.address)
        await tab.until(CONNECTED)
        assert await tab.value("document.title") == "Hearth"
        prompt = await talk(opened, tab)
        await tab.until("document.querySelector('.mine:not(.waiting)')")
        await opened.write(prompt.session, "Let me ", "see", prompt=prompt.id)
        await tab.until("document.querySelector('.writing .text')?.textContent === 'Let me see'")
        await opened.say(prompt.session, "Let me see. Yes.", prompt=prompt.id)
        await tab.shows("Let me see. Yes.")
        assert await tab.value("document.querySelectorAll('#said > li').length") == 2
        await opened.write(prompt.session, " too late", prompt=prompt.id, first=2)
        await opened.say(prompt.session, "More.")
        await tab.shows("More.")
        assert "too late" not in await tab.value("document.body.innerText")
        assert all(url.startswith((opened.address, opened.address.replace("http", "ws"))) for url in tab.requests)
        assert tab.complaints == []


async def test_what_was_said_stands_there_after_a_reload(place, tab):
    async with place() as opened:
        await tab.open(opened.address)
        prompt = await talk(opened, tab)
        await opened.say(prompt.session, "an answer", prompt=prompt.id)
        await tab.shows("an answer")
        await tab.reload()
        await tab.shows("an answer")
        assert await tab.value("document.querySelectorAll('#said > li').length") == 2


async def test_it_comes_back_by_itself_and_misses_nothing_and_sends_once_what_was_typed_meanwhile(place, tab):
    async with place() as opened:
        port = int(opened.address.rstrip("/").rpartition(":")[2])
        await tab.open(opened.address)
        prompt = await talk(opened, tab)
        await tab.until("document.querySelector('.mine:not(.waiting)')")
    await tab.until("document.getElementById('state').textContent.startsWith('not connected')")
    await tab.type("meanwhile")
    await tab.press("Enter")
    await tab.until("document.querySelector('.mine.waiting')")
    async with place(port=port) as opened:
        await opened.say(prompt.session, "missed", prompt=prompt.id)
        await opened.heard("meanwhile")
        await tab.shows("missed")
        await tab.until("!document.querySelector('.mine.waiting')")
        assert await opened.kinds("ChatAfferent") == ["hello", "meanwhile"]
        assert await tab.value("document.querySelectorAll('.mine').length") == 2


async def test_thoughts_and_calls_stand_folded_above_the_answer_while_it_is_made_and_after(place, tab):
    async with place() as opened:
        await tab.open(opened.address)
        prompt = await talk(opened, tab)
        await opened.act(prompt.session, "thought", "They want to know\nwhat is there.")
        await tab.until(
            "document.querySelector('.work.busy > details > summary')?.textContent.startsWith('Thought They')"
        )
        await opened.act(prompt.session, "call", '{"path":"notes.md"}', "fs.read_text", "c-1")
        await tab.until("document.querySelector('.work summary')?.textContent === 'fs.read_text notes.md'")
        await opened.write(prompt.session, "It says", prompt=prompt.id)
        await tab.until("document.querySelector('.writing')")
        await opened.act(prompt.session, "call", '{"cmd":"<b>rm</b>"}', "shell.exec", "c-2")
        await opened.act(prompt.session, "result", '{"text":"buy\\nmilk"}', call="c-1")
        await opened.act(prompt.session, "fault", "denied: no", call="c-2")
        await opened.say(prompt.session, "It says: milk.", prompt=prompt.id)
        for _ in range(2):
            await tab.shows("It says: milk.")
            assert await tab.value("[...document.querySelectorAll('#said > li')].map((li) => li.className).join()") == (
                "mine,work,theirs"
            )
            folded = "document.querySelector('.work > details')"
            assert await tab.value(f"{folded}.open") is False
            assert await tab.value(f"{folded}.firstChild.textContent") == "1 thought, 2 tool calls, 1 failed"
            assert await tab.value("document.querySelectorAll('.work b, .work .open').length") == 0
            inside = await tab.value("[...document.querySelectorAll('.work pre')].map((pre) => pre.textContent)")
            assert inside == ["path: notes.md", "text: buy\nmilk", "cmd: <b>rm</b>", "denied: no"]
            await tab.reload()
        assert tab.complaints == []


THOUGHTS = "[...document.querySelectorAll('.work .thought .text')].map((each) => each.textContent)"


async def test_a_thought_grows_in_the_fold_and_the_whole_one_replaces_it(place, tab):
    async with place() as opened:
        await tab.open(opened.address)
        prompt = await talk(opened, tab)
        await opened.write(prompt.session, "They want ", "<b>milk</b>", prompt=prompt.id, thought="t-1")
        await tab.until(f"{THOUGHTS}.join() === 'They want <b>milk</b>'")
        folded = "document.querySelector('.work > details')"
        assert await tab.value(f"{folded}.firstChild.textContent") == "Thought They want <b>milk</b>"
        assert await tab.value(f"{folded}.open") is False
        assert await tab.value("document.querySelectorAll('.work .thought.open').length") == 1
        await opened.write(prompt.session, "Let me", prompt=prompt.id)
        await tab.until("document.querySelector('.writing .text')?.textContent === 'Let me'")
        await opened.write(prompt.session, " today", prompt=prompt.id, first=2, thought="t-1")
        await tab.until(f"{THOUGHTS}.join() === 'They want <b>milk</b> today'")
        assert await tab.value("document.querySelector('.writing .text').textContent") == "Let me"
        await opened.act(prompt.session, "thought", "They want milk today.", stream="t-1")
        await tab.until(f"{THOUGHTS}.join() === 'They want milk today.'")
        assert await tab.value("document.querySelectorAll('.work .thought.open').length") == 0
        await opened.write(prompt.session, " too late", prompt=prompt.id, first=3, thought="t-1")
        await opened.write(prompt.session, "again", prompt=prompt.id, thought="t-1")
        await opened.write(prompt.session, "An attempt that ", prompt=prompt.id, thought="t-2")
        await tab.until(f"{THOUGHTS}.length === 2")
        await opened.say(prompt.session, "Let me see.", prompt=prompt.id)
        for _ in range(2):
            await tab.shows("Let me see.")
            assert await tab.value("[...document.querySelectorAll('#said > li')].map((li) => li.className).join()") == (
                "mine,work,theirs"
            )
            assert await tab.value(THOUGHTS) == ["They want milk today."]
            assert await tab.value(f"{folded}.firstChild.textContent") == "1 thought"
            await tab.reload()
        assert tab.complaints == []


async def test_a_thought_with_a_hole_in_it_is_not_shown_until_it_is_whole(place, tab):
    async with place() as opened:
        await tab.open(opened.address)
        prompt = await talk(opened, tab)
        await opened.write(prompt.session, "First ", prompt=prompt.id, thought="t-1")
        await tab.until(f"{THOUGHTS}.join() === 'First '")
        await opened.write(prompt.session, "third", prompt=prompt.id, first=2, thought="t-1")
        await opened.write(prompt.session, "Mean", prompt=prompt.id, thought="t-2")
        await opened.write(prompt.session, "while", prompt=prompt.id, first=1, thought="t-2")
        await tab.until(f"{THOUGHTS}.includes('Meanwhile')")
        await opened.act(prompt.session, "thought", "First second third", stream="t-1")
        await tab.until(f"{THOUGHTS}.includes('First second third')")
        await opened.say(prompt.session, "So.", prompt=prompt.id)
        await tab.shows("So.")
        assert await tab.value(THOUGHTS) == ["First second third"]
        assert tab.complaints == []


async def test_an_outcome_that_comes_before_its_call_finds_its_place(place, tab):
    async with place() as opened:
        await tab.open(opened.address)
        session = (await talk(opened, tab)).session
        await opened.act(session, "result", "milk", call="c-1")
        await opened.act(session, "call", '{"path":"notes.md"}', "fs.read_text", "c-1")
        await tab.until("document.querySelectorAll('.work pre').length === 2")
        assert await tab.value("[...document.querySelectorAll('.work pre')].map((pre) => pre.textContent)") == [
            "path: notes.md",
            "milk",
        ]
        assert await tab.value("document.querySelectorAll('.work .call').length") == 1


async def test_a_question_is_a_card_with_buttons_and_is_answered_once(place, tab):
    async with place() as opened:
        await tab.open(opened.address)
        session = (await talk(opened, tab)).session
        await opened.ask(session, "May I write list.txt?", "yes", "no")
        await tab.until("document.querySelectorAll('.question button').length === 2")
        await tab.value("document.querySelector('.question button').click()")
        answered = await opened.journal.wait_for(lambda r: r.kind == "ChatAnswer", timeout=60)
        assert (answered.session, answered.entry.correlation_id, answered.entry.answer) == (
            session,
            "question-1",
            "yes",
        )
        await tab.shows("answered: yes")
        assert await tab.value("document.querySelectorAll('.question button').length") == 0
        await tab.reload()
        await tab.shows("answered: yes")


async def test_a_question_without_choices_takes_any_text(place, tab):
    async with place() as opened:
        await tab.open(opened.address)
        session = (await talk(opened, tab)).session
        await opened.ask(session, "What is your name?")
        await tab.until("document.querySelector('.question input')")
        await tab.value(
            "(() => { const form = document.querySelector('.question form');"
            " form.querySelector('input').value = 'Ada'; form.requestSubmit(); })()"
        )
        answered = await opened.journal.wait_for(lambda r: r.kind == "ChatAnswer", timeout=60)
        assert answered.entry.answer == "Ada"


TEXTS = "[...document.querySelectorAll('#said > li > .text')].map((text) => text.textContent).join('|')"


async def test_a_conversation_goes_on_from_an_earlier_message_and_the_one_until_then_can_be_found_again(place, tab):
    async with place() as opened:
        await tab.open(opened.address)
        for text in ("one", "two"):
            prompt = await talk(opened, tab, text)
            await opened.say(prompt.session, text.upper(), prompt=prompt.id)
            await tab.shows(text.upper())
        await tab.value("document.querySelectorAll('.mine button')[1].click()")
        assert await tab.value("document.getElementById('text').value") == "/fork 1 two"
        await tab.type(", or three")
        await tab.press("Enter")
        forked = await opened.heard("two, or three")
        assert forked.session != prompt.session
        await tab.until(f"({TEXTS}) === 'one|ONE|two, or three'")
        assert await tab.value("[...document.querySelectorAll('#others option')].map((each) => each.text)") == [
            "↳ two, or three",
            "one",
        ]
        await tab.value(
            "(() => { const others = document.getElementById('others'); others.selectedIndex = 1;"
            " others.dispatchEvent(new Event('change')); })()"
        )
        await tab.until(f"({TEXTS}) === 'one|ONE|two|TWO'")
        await tab.type("/fork 9")
        await tab.press("Enter")
        await tab.shows("not forked: this conversation has 2 messages, so it cannot go back 9")
        assert tab.complaints == []


async def test_a_new_conversation_is_another_one_and_the_last_one_can_be_found_again(place, tab):
    async with place() as opened:
        await tab.open(opened.address)
        first = await talk(opened, tab, "one")
        await tab.until("document.querySelector('.mine:not(.waiting)')")
        assert await tab.value("document.getElementById('others').hidden") is True
        await tab.value("document.getElementById('new').click()")
        await tab.until("document.getElementById('others')?.selectedOptions[0]?.text === 'new'")
        assert (await talk(opened, tab, "two")).session != first.session
        await tab.until("document.querySelector('.mine:not(.waiting)')")
        assert await tab.value(TEXTS) == "two"


async def test_a_file_that_is_chosen_or_pasted_is_sent_and_shown_and_one_that_comes_can_be_saved(place, tab, tmp_path):
    async with place() as opened:
        await tab.open(opened.address)
        await tab.until(CONNECTED)
        data = f"Uint8Array.from(atob('{base64.b64encode(PNG).decode()}'), (c) => c.charCodeAt(0))"
        await tab.value(
            "(() => { const pasted = new DataTransfer();"
            f" pasted.items.add(new File([{data}], 'chart.png', {{ type: 'image/png' }}));"
            " pasted.items.add(new File(['milk'], 'a.txt', { type: 'text/plain' }));"
            " document.getElementById('text').dispatchEvent("
            "new ClipboardEvent('paste', { clipboardData: pasted, cancelable: true })); })()"
        )
        await tab.until("document.querySelectorAll('#chosen li').length === 2")
        await tab.type("look")
        await tab.press("Enter")
        record = await opened.heard(
            f"look\n\n[attached: chart.png, image/png, {len(PNG)} bytes]"
            "\n\n[attached: a.txt, text/plain, 4 bytes]\nmilk"
        )
        assert [each.body for each in record.entry.attachments] == [PNG]
        shown = "document.querySelector('.mine:not(.waiting) img[alt=\"chart.png\"]')"
        await tab.until(shown)
        assert await tab.value(f"{shown}.decode().then(() => {shown}.naturalWidth)") == 1
        report = Attachment("report.html", "text/html", b"<script>alert(1)</script>")
        draft = ChatEfferentDraft(text="here", attachments=(report,))
        await opened.journal.append(draft, session=record.session)
        await tab.until("document.querySelector('.theirs .file')?.download === 'report.html'")
        assert await tab.value("document.querySelector('.theirs .file').href.startsWith('blob:')")
        assert tab.complaints == []


ANSWER = """\
# Files
  There are **two** of them:
- `a.py`, see https://example.org/a_(b)?c=d.
- [the other](https://example.org/b), not [this](javascript:alert(1))
- [https://example.org](https://example.com/)
```python
if a ** b ** c:
    <b>print</b>
```
2 * 3 ** 4 `` ` `` <b>"""


async def test_code_emphasis_and_links_of_an_answer_are_shown_as_such_and_the_rest_as_it_is(place, tab):
    async with place() as opened:
        await tab.open(opened.address)
        prompt = await talk(opened, tab, "**mine**")
        await opened.write(prompt.session, "Well, **yes", "** and\n```\nno", prompt=prompt.id)
        await tab.until("document.querySelector('.writing strong')?.textContent === 'yes'")
        await tab.until("document.querySelector('.writing pre')?.textContent === 'no'")
        await opened.say(prompt.session, ANSWER, prompt=prompt.id)
        await tab.until("document.querySelector('.theirs:not(.writing)')")

        async def all_of(name: str) -> list[str]:
            return await tab.value(f"[...document.querySelectorAll('#said {name}')].map((each) => each.textContent)")

        assert await all_of("strong") == ["Files", "two"]
        assert await all_of(":not(pre) > code") == ["a.py", " ` "]
        assert await all_of("pre") == ["if a ** b ** c:\n    <b>print</b>"]
        assert await all_of("b") == []
        assert await tab.value("[...document.querySelectorAll('#said a')].map((a) => [a.textContent, a.href])") == [
            ["https://example.org/a_(b)?c=d", "https://example.org/a_(b)?c=d"],
            ["the other", "https://example.org/b"],
            ["https://example.org (https://example.com/)", "https://example.com/"],
        ]
        shown = await tab.value("document.querySelector('.theirs .text').textContent")
        assert shown.startswith("Files\n  There are two of them:\n- a.py, see")
        assert "[this](javascript:alert(1))" in shown
        assert shown.endswith("2 * 3 ** 4  `  <b>")
        assert await tab.value("document.querySelector('.mine .text').textContent") == "**mine**"
        assert tab.complaints == []


async def test_markup_is_shown_as_it_is_and_does_nothing(place, tab):
    hostile = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    async with place(title="<b>Hearth</b>") as opened:
        await tab.open(opened.address)
        prompt = await talk(opened, tab, hostile)
        await opened.write(prompt.session, hostile, prompt=prompt.id)
        await tab.until("document.querySelector('.writing .text')?.textContent.includes('onerror')")
        await opened.say(prompt.session, hostile, prompt=prompt.id)
        await opened.ask(prompt.session, hostile, hostile)
        await tab.until("document.querySelector('.question button')")
        assert await tab.value("document.querySelectorAll('img, #said script, b').length") == 0
        assert await tab.value("document.title") == "<b>Hearth</b>"


async def test_an_answer_however_long_is_shown(place, tab):
    async with place() as opened:
        await tab.open(opened.address)
        prompt = await talk(opened, tab)
        await opened.say(prompt.session, "**x** `c` " * 50_000 + "end", prompt=prompt.id)
        await tab.until("document.querySelector('.theirs .text')?.textContent.endsWith('end')")
        assert await tab.value("document.querySelectorAll('.theirs strong').length") == 0
        assert tab.complaints == []


async def test_a_token_is_asked_for_and_kept(place, tab, monkeypatch):
    monkeypatch.setenv("COVEN_WEB_TOKEN", "right")
    async with place() as opened:
        await tab.open(opened.address)
        await tab.until("!document.getElementById('entrance').hidden")
        await tab.call("Input.insertText", text="right")
        await tab.value("document.getElementById('entrance').requestSubmit()")
        await tab.until(CONNECTED)
        await tab.reload()
        await tab.until(CONNECTED)


async def test_it_fits_a_phone_and_everything_has_a_name(place, tab):
    async with place() as opened:
        await tab.open(opened.address)
        session = (await talk(opened, tab)).session
        await opened.say(session, "x" * 500)
        await opened.ask(session, "May I?", "yes", "no")
        await tab.until("document.querySelector('.question button')")
        assert await tab.value("document.documentElement.scrollWidth <= innerWidth")
        nodes = (await tab.call("Accessibility.getFullAXTree"))["nodes"]
        roles = {}
        for node in nodes:
            roles.setdefault(node.get("role", {}).get("value"), []).append(node.get("name", {}).get("value", ""))
        assert roles["textbox"] == ["Message"]
        assert set(roles["button"]) == {
            "New conversation",
            "Go on from before this message",
            "yes",
            "no",
            "Attach files",
            "Send",
        }
        assert roles["log"] == ["Conversation"]
