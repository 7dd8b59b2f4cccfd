"""What providers refuse, connections that break, and requests that are given up."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import msgspec
import pytest

from branches.agents.crystal import (
    CrystalError,
    CrystalRequest,
    Usage,
)
from branches.agents.retrying import UNREACHABLE, Retrying
from coven.testing.providers import ProviderServer, Reply
from leaves.crystals._remote import RemoteCrystal
from leaves.crystals.gemini import _translated as translated
from tests.leaves.crystals.providers import Provider
from tests.leaves.crystals.wire.conversation import ASKED, ask


@pytest.mark.parametrize("finish", ["refusal", "blocked"])
async def test_a_refusal_is_an_error(crystal: RemoteCrystal, server: ProviderServer, streamed: bool, finish: str):
    """Its tokens are paid for."""
    used = {"prompt_tokens": 12, "completion_tokens": 5, "cached_tokens": 8}
    server.replies = [msgspec.convert({"finish": finish, "message": "That I do not do.", **used}, Reply)]
    with pytest.raises(CrystalError) as caught:
        await ask(crystal, CrystalRequest(ASKED), streamed)
    assert (caught.value.code, caught.value.status) == ("refused", None)
    assert caught.value.usage == Usage(prompt=12, completion=5, cached=8)


async def test_an_answer_without_a_word_is_paid_for(crystal: RemoteCrystal, server: ProviderServer, streamed: bool):
    server.replies = [Reply(finish="length", prompt_tokens=12, completion_tokens=5)]
    with pytest.raises(CrystalError, match="cut off before it said anything") as caught:
        await ask(crystal, CrystalRequest(ASKED), streamed)
    assert caught.value.usage == Usage(prompt=12, completion=5)


async def test_what_a_filter_stopped_is_an_error_with_all_that_was_said(
    crystal: RemoteCrystal, server: ProviderServer, streamed: bool
):
    """The half of it would stand in the conversation, where providers would refuse whatever comes behind it."""
    server.replies = [Reply(text="First you", finish="blocked", message="That I do not do."), Reply(finish="blocked")]
    for _ in range(2):
        with pytest.raises(CrystalError) as caught:
            await ask(crystal, CrystalRequest(ASKED), streamed)
        assert caught.value.code == "refused"
        assert "None" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "code", "retried"),
    [
        (400, "bad_request", False),
        (401, "unauthorized", False),
        (403, "unauthorized", False),
        (404, "not_found", False),
        (429, "rate_limited", True),
        (500, "unavailable", True),
        (503, "unavailable", True),
        (529, "unavailable", True),
    ],
)
async def test_an_error_has_one_vocabulary(
    crystal: RemoteCrystal, server: ProviderServer, streamed: bool, status: int, code: str, retried: bool
):
    """The SDK makes no second request: retries are the loop's."""
    server.replies = [Reply(status=status, message="Not now.", headers={"retry-after": "7"}), Reply(text="again")]
    with pytest.raises(CrystalError, match=r"Not now\.") as caught:
        await ask(crystal, CrystalRequest(ASKED), streamed)
    assert caught.value.code == code
    assert caught.value.retry_after_s == 7
    assert Retrying().allows(caught.value, 1) is retried
    assert len(server.requests) == 1


async def test_a_wrong_key_is_not_shown(provider: Provider, server: ProviderServer):
    wrong = ProviderServer(key="another-key")
    async with wrong:
        crystal = provider.make(wrong.url)
        with pytest.raises(CrystalError) as caught:
            await crystal.invoke(CrystalRequest(ASKED))
        await crystal.close()
    assert caught.value.code == "unauthorized"
    assert "loopback-key" not in str(caught.value)


async def test_an_error_in_the_middle_of_a_stream(crystal: RemoteCrystal, server: ProviderServer):
    server.replies = [Reply(text="Good mor", error_within="overloaded_error", message="Overloaded")]
    with pytest.raises(CrystalError, match="Overloaded") as caught:
        await crystal.invoke(CrystalRequest(ASKED), lambda text: None)
    assert Retrying().allows(caught.value, 1)


@pytest.mark.parametrize("breaks_after", [0, 60, 400])
async def test_a_connection_that_breaks(
    crystal: RemoteCrystal, server: ProviderServer, streamed: bool, breaks_after: int
):
    text = "Good morning. " * 60
    server.replies = [Reply(text=text, breaks_after=breaks_after)]
    with pytest.raises(CrystalError) as caught:
        await ask(crystal, CrystalRequest(ASKED), streamed)
    assert (caught.value.code, caught.value.status) == (UNREACHABLE, None)


@pytest.mark.parametrize("breaks_after", [0, 60, 400])
async def test_a_connection_that_is_half_closed(
    crystal: RemoteCrystal, server: ProviderServer, streamed: bool, breaks_after: int
):
    """The provider sends no more and still listens: the crystal closes its side too, and asks anew on another one."""
    given_up = asyncio.Event()
    broken = Reply(text="Good morning. " * 60, breaks_after=breaks_after, half_closes=True, given_up=given_up)
    server.replies = [broken, Reply(text="Here.")]
    with pytest.raises(CrystalError) as caught:
        await ask(crystal, CrystalRequest(ASKED), streamed)
    assert (caught.value.code, caught.value.status) == (UNREACHABLE, None)
    await given_up.wait()
    assert (await ask(crystal, CrystalRequest(ASKED), streamed)).content == "Here."


async def test_nobody_answers(provider: Provider, server: ProviderServer, streamed: bool):
    async with ProviderServer() as gone:
        url = gone.url
    crystal = provider.make(url)
    with pytest.raises(CrystalError) as caught:
        await ask(crystal, CrystalRequest(ASKED), streamed)
    assert caught.value.code == UNREACHABLE
    await crystal.close()


async def test_a_first_byte_that_does_not_come_in_time(provider: Provider, server: ProviderServer, streamed: bool):
    server.replies = [Reply(text="late", hold=asyncio.Event())]
    crystal = provider.make(server.url, timeout_s=0.05)
    with pytest.raises(CrystalError) as caught:
        await ask(crystal, CrystalRequest(ASKED), streamed)
    assert caught.value.code == UNREACHABLE
    await crystal.close()


async def test_cancelling_closes_the_connection(crystal: RemoteCrystal, server: ProviderServer, streamed: bool):
    given_up = asyncio.Event()
    server.replies = [Reply(text="never", hold=asyncio.Event(), given_up=given_up), Reply(text="Here.")]
    asking = asyncio.create_task(ask(crystal, CrystalRequest(ASKED), streamed))
    await server.asked.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await given_up.wait()
    assert (await ask(crystal, CrystalRequest(ASKED), streamed)).content == "Here."


def test_gemini_says_in_its_details_what_others_say_in_a_header():
    """How long to wait, and of a bad request that it is the key."""
    details: list[object] = [
        {"@type": "type.googleapis.com/google.rpc.Help", "links": []},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"},
    ]
    error = SimpleNamespace(code=429, message="Not now.", response=None, details={"error": {"details": details}})
    told = translated(error)
    assert (told.code, told.retry_after_s) == ("rate_limited", 7)
    error.code = 400
    assert translated(error).code == "bad_request"
    details.append({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"})
    assert translated(error).code == "unauthorized"
    error.details = "<html>"
    assert translated(error).code == "bad_request"
