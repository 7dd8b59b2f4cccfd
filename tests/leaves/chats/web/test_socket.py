"""The socket of the page: what it gets, what it may send, and who may open it."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import asynccontextmanager

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from branches.attachment import FILE_BYTES, FILES, Attachment
from branches.chat import ChatEfferentDraft
from branches.chat.entries import ChatQuestion
from branches.secret import SecretUnset
from leaves.chats.web.leaf import WebChat
from leaves.chats.web.messages import FRAME_LIMIT, PART_LIMIT
from leaves.chats.web.options import WebOptions

NAME = "conversation-of-a-browser"
SESSION = f"web-{NAME}"


class Client:
    def __init__(self, socket) -> None:
        self._socket = socket

    async def send(self, **message) -> None:
        await self._socket.send(json.dumps(message))

    async def get(self, type: str):
        """The next message of this type; others are passed over."""
        async with asyncio.timeout(60):
            while True:
                message = json.loads(await self._socket.recv())
                if message["type"] == type:
                    return message

    async def closed(self) -> int:
        async with asyncio.timeout(60):
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    await self._socket.recv()
        return closed.value.rcvd.code


@asynccontextmanager
async def socket(place, *, headers=None, address=None):
    url = (address or place.address).replace("http:", "ws:") + "socket"
    async with connect(url, additional_headers=headers, proxy=None, max_size=None) as opened:
        yield Client(opened)


@asynccontextmanager
async def visit(place, *, after: int = 0, name: str = NAME, **hello):
    async with socket(place) as client:
        await client.send(type="hello", conversation=name, after=after, **hello)
        yield client


async def test_a_message_is_recorded_under_the_browsers_conversation_and_comes_back_with_its_id(place):
    async with place(title="Hearth", sender="ada") as opened, visit(opened) as page:
        assert (await page.get("welcome"))["title"] == "Hearth"
        await page.send(type="say", id="message-1", text="hello")
        said = await page.get("said")
        record = await opened.heard("hello")
        assert (record.session, record.entry.sender) == (SESSION, "ada")
        assert (said["mine"], said["position"]) == ("message-1", record.position)
        await opened.say(SESSION, "hi", prompt=record.id)
        answer = await page.get("said")
        assert (answer["text"], answer["prompt"], answer["sender"]) == ("hi", record.id, "hearth")


async def test_a_message_that_is_sent_again_is_one_message(place):
    async with place() as opened:
        for _ in range(2):
            async with visit(opened) as page:
                await page.send(type="say", id="message-1", text="once")
                await page.get("said")
        async with visit(opened) as page:
            await page.send(type="say", id="message-2", text="last")
            await opened.heard("last")
        assert await opened.kinds("ChatAfferent") == ["once", "last"]


async def test_a_page_that_comes_back_gets_what_it_missed_also_from_a_server_that_was_started_again(place):
    async with place() as opened, visit(opened) as page:
        await opened.say(SESSION, "one")
        position = (await page.get("said"))["position"]
    async with place() as opened:
        await opened.say(SESSION, "two")
        await opened.journal.wait_for(lambda r: r.kind == "ChatEfferent" and r.entry.text == "two", timeout=60)
        async with visit(opened, after=position) as page:
            assert (await page.get("said"))["text"] == "two"
            await opened.say(SESSION, "three")
            assert (await page.get("said"))["text"] == "three"


async def test_two_pages_of_one_conversation_see_the_same_and_another_conversation_nothing(place):
    async with (
        place() as opened,
        visit(opened) as one,
        visit(opened) as two,
        visit(opened, name="somebody-else-altogether") as other,
    ):
        await two.get("welcome")
        await one.send(type="say", id="message-1", text="hello")
        assert (await two.get("said"))["text"] == "hello"
        await other.send(type="say", id="message-1", text="mine")
        assert (await other.get("said"))["text"] == "mine"


async def test_pieces_of_a_text_come_while_it_is_written(place):
    async with place() as opened, visit(opened) as page:
        await page.get("welcome")
        await opened.write(SESSION, "Let ", "me", prompt="p")
        pieces = [await page.get("piece") for _ in range(2)]
        assert [(piece["index"], piece["text"], piece["prompt"]) for piece in pieces] == [
            (0, "Let ", "p"),
            (1, "me", "p"),
        ]


async def test_what_the_agent_does_comes_in_its_place_and_again_to_a_page_that_comes_back(place):
    async with place() as opened:
        async with visit(opened) as page:
            await opened.act(SESSION, "call", '{"path":"a"}', "fs.read_text", "c-1")
            call = await page.get("active")
            await opened.act(SESSION, "result", "milk", call="c-1")
            result = await page.get("active")
            await opened.say(SESSION, "It says: milk.")
            assert (await page.get("said"))["position"] > result["position"] > call["position"]
        del call["position"]
        assert call == {
            "type": "active",
            "activity": "call",
            "text": '{"path":"a"}',
            "tool_name": "fs.read_text",
            "call": "c-1",
        }
        async with visit(opened, after=result["position"] - 1) as page:
            assert await page.get("active") == result


async def test_another_conversation_goes_on_from_this_one_and_begins_with_a_text(place):
    new = "conversation-that-goes-on"
    fork = {"type": "fork", "id": "fork-0001", "into": new, "back": 1, "text": "another"}
    async with place() as opened:
        async with visit(opened) as page:
            for text in ("one", "two"):
                await page.send(type="say", id=f"said-{text}-id", text=text)
                prompt = await opened.heard(text)
                await opened.say(SESSION, text.upper(), prompt=prompt.id)
                await page.get("said")
                await page.get("said")
            await opened.ask(SESSION, "Sure?", "yes", "no")
            for _ in range(2):  # the page did not hear of it, and asks again
                await page.send(**fork)
                assert await page.get("forked") == {"type": "forked", "id": "fork-0001", "into": new}
            await page.send(**fork | {"id": "fork-0002", "back": 3, "into": "conversation-of-nobody"})
            assert "cannot go back 3" in (await page.get("refused"))["reason"]
        async with visit(opened, name=new) as page:
            assert [(await page.get("said"))["text"] for _ in range(3)] == ["one", "ONE", "another"]
        assert await opened.kinds("ChatAfferent") == ["one", "two", "another"]


async def test_a_question_that_the_conversation_was_forked_behind_is_asked_there_alone(place):
    new = "conversation-that-goes-on"
    async with place() as opened:
        async with visit(opened) as page:
            await opened.ask(SESSION, "Sure?", "yes", "no")
            await page.get("said")
            await page.send(type="fork", id="fork-0001", into=new)
            await page.get("forked")
        async with visit(opened, name=new) as page:
            assert "question" not in await page.get("said")
            await page.send(type="answer", id="answer-0001", question="question-1", text="yes")
            assert (await page.get("refused"))["reason"] == "this conversation has no such question"


async def test_an_answer_binds_to_the_question_of_this_conversation_and_to_its_choices(place):
    async with place() as opened, visit(opened) as page, visit(opened, name="somebody-else-altogether") as other:
        await opened.ask(SESSION, "May I?", "yes", "no")
        asked = await page.get("said")
        assert (asked["question"], asked["choices"]) == ("question-1", ["yes", "no"])
        await other.send(type="answer", id="answer-of-other", question="question-1", text="yes")
        assert "no such question" in (await other.get("refused"))["reason"]
        await page.send(type="answer", id="answer-1", question="question-1", text="perhaps")
        assert (await page.get("refused"))["reason"] == "the answers are yes, no"
        await page.send(type="answer", id="answer-2", question="question-1", text="yes")
        assert (await page.get("answered"))["text"] == "yes"
        record = await opened.journal.last(kinds=["ChatAnswer"])
        assert (record.session, record.entry.correlation_id, record.entry.answer) == (SESSION, "question-1", "yes")


async def test_an_answer_of_somebody_who_may_not_give_it_is_refused(place):
    async with place(sender="mallory") as opened, visit(opened) as page:
        asked = ChatQuestion(correlation_id="question-1", question="May I?", choices=("yes",), approvers=("ada",))
        await opened.journal.append(asked, session=SESSION, correlation_id="question-1")
        await page.get("said")
        await page.send(type="answer", id="answer-1", question="question-1", text="yes")
        assert (await page.get("refused"))["reason"] == "only ada may answer this"
    async with place(sender="ada") as opened, visit(opened) as page:
        await page.send(type="answer", id="answer-2", question="question-1", text="yes")
        assert (await page.get("answered"))["text"] == "yes"


async def test_a_message_for_no_page_is_refused(place):
    async with place() as opened:
        await opened.say("console", "lost")
        outcome = await opened.journal.wait_for(lambda r: r.kind == "ChatUndelivered", timeout=60)
        assert "'console'" in outcome.entry.error


@pytest.mark.parametrize(
    "text", ["no json", "[]", '{"type":"say"}', '{"type":"hello","conversation":"short"}', "[" * 5000, b"bytes"]
)
async def test_a_first_message_that_is_none_ends_it(place, text):
    async with place() as opened, socket(opened) as client:
        await client._socket.send(text)
        assert await client.closed() == 1008


@pytest.mark.parametrize("text", ["no json", '{"type":"say","id":"x","text":""}', "[" * 5000, b"bytes"])
async def test_a_later_message_that_is_none_ends_it_and_nothing_else(place, text):
    async with place() as opened, visit(opened) as page, visit(opened) as other:
        await page._socket.send(text)
        assert await page.closed() == 1008
        await other.send(type="say", id="message-1", text="still here")
        await opened.heard("still here")


async def upload(page, file: str, body: bytes) -> None:
    for at in range(0, len(body), PART_LIMIT):
        await page.send(type="part", file=file, data=base64.b64encode(body[at : at + PART_LIMIT]).decode())


def chosen(file: str, name: str, body: bytes, media_type: str = "") -> dict:
    return {"file": file, "name": name, "size": len(body), "media_type": media_type}


async def test_files_come_in_pieces_and_their_images_go_back_to_the_page(place):
    image = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4_000
    files = [chosen("file-0001", "../chart.png", image, "image/png"), chosen("file-0002", "a.txt", b"milk")]
    async with place() as opened, visit(opened) as page:
        for _ in range(2):  # again, as a page does that was cut off before it heard that it has come
            await upload(page, "file-0001", image)
            await upload(page, "file-0002", b"milk")
            await page.send(type="say", id="message-1", text="", files=files)
        said = await page.get("said")
        (record,) = [each async for each in opened.journal.read(kinds=["ChatAfferent"])]
        assert [(each.name, each.body) for each in record.entry.attachments] == [("chart.png", image)]
        assert [(each["name"], base64.b64decode(each["body"])) for each in said["files"]] == [("chart.png", image)]
        assert said["text"].endswith("[attached: a.txt, unknown type, 4 bytes]\nmilk")


async def test_a_message_whose_files_have_not_come_whole_is_refused(place):
    async with place() as opened, visit(opened) as page:
        await upload(page, "file-0001", b"mil")
        await page.send(type="say", id="message-1", text="look", files=[chosen("file-0001", "a.txt", b"milk")])
        assert "choose them again" in (await page.get("refused"))["reason"]
        await page.send(type="say", id="message-2", text="look", files=[chosen("file-0002", "a.txt", b"milk")])
        assert (await page.get("refused"))["id"] == "message-2"
        await page.send(type="say", id="message-3", text=" ")
        assert "has a text" in (await page.get("refused"))["reason"]


async def test_more_than_a_message_may_have_ends_it(place):
    async with place() as opened:
        async with visit(opened) as page:
            await upload(page, "file-0001", bytes(FILE_BYTES + 1))
            assert await page.closed() == 1008
        async with visit(opened) as page:
            for number in range(FILES + 1):
                await page.send(type="part", file=f"file-{number:04}", data="")
            assert await page.closed() == 1008


async def test_files_of_an_answer_go_to_the_page(place):
    report = Attachment("report.pdf", "application/pdf", b"%PDF-")
    async with place() as opened, visit(opened) as page:
        await opened.journal.append(ChatEfferentDraft(text="here", attachments=(report,)), session=SESSION)
        said = await page.get("said")
        assert said["files"] == [{"name": "report.pdf", "media_type": "application/pdf", "body": "JVBERi0="}]


async def test_a_frame_that_is_too_large_ends_it(place):
    async with place() as opened, visit(opened) as page:
        await page._socket.send("x" * (FRAME_LIMIT + 1))
        assert await page.closed() == 1009


async def test_another_sites_page_and_another_name_for_this_machine_stay_outside(place):
    async with place() as opened:
        for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://[evil"}):
            with pytest.raises(InvalidStatus) as refused:
                async with socket(opened, headers=headers):
                    pass
            assert refused.value.response.status_code == 403
        async with httpx2.AsyncClient() as client:
            for host in ("evil.example", "evil.example:80", "[evil", "127.0.0.1.evil.example"):
                assert (await client.get(opened.address, headers={"Host": host})).status_code == 403
            for host in ("localhost", "LOCALHOST:80", "127.0.0.1", "[::1]:80"):
                assert (await client.get(opened.address, headers={"Host": host})).status_code == 200
        async with socket(opened, headers={"Origin": opened.address.rstrip("/")}) as client:
            await client.send(type="hello", conversation=NAME)
            await client.get("welcome")


async def test_with_a_token_only_who_knows_it_comes_in(place, monkeypatch):
    monkeypatch.setenv("COVEN_WEB_TOKEN", "right")
    async with place() as opened:
        for hello in ({}, {"token": "wrong"}):
            async with visit(opened, **hello) as page:
                assert await page.closed() == 4401
        async with visit(opened, token="right") as page:
            await page.get("welcome")


def test_others_than_this_machine_need_a_token(monkeypatch):
    monkeypatch.delenv("COVEN_WEB_TOKEN", raising=False)
    with pytest.raises(SecretUnset, match="COVEN_WEB_TOKEN"):
        WebChat(WebOptions(host="0.0.0.0"), "chat")
    monkeypatch.setenv("COVEN_WEB_TOKEN", "right")
    assert "right" not in repr(WebChat(WebOptions(host="0.0.0.0"), "chat"))


async def test_the_page_is_four_files_with_a_strict_policy(place):
    async with place() as opened, httpx2.AsyncClient(base_url=opened.address) as client:
        script = "text/javascript"
        files = {"": "text/html", "page.css": "text/css", "page.js": script, "text.js": script}
        for path, kind in files.items():
            answer = await client.get(path)
            assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, kind)
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "http://" not in answer.text
            assert "https://" not in answer.text
            assert "innerHTML" not in answer.text
        assert (await client.get("../leaf.py")).status_code == 404
        assert (await client.post("", content=b"x")).status_code == 405


async def test_an_address_that_is_taken_fails_the_service(place):
    async with place() as opened:
        port = int(opened.address.rstrip("/").rpartition(":")[2])
        with pytest.raises(OSError, match="in use"):
            async with place(port=port):
                pass
