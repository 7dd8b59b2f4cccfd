"""How the contract is run against real services: with their keys, for little money, and showing no key.

No real service is asked here. The variables with which the SDKs are sent elsewhere lead to a server on the loopback
interface, and the contract runs in a process of its own, as `COVEN_LIVE=1 pytest` does it.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from branches.agents.crystal import CrystalRequest, Message, Sampling, Usage
from branches.agents.prices import Price
from coven.testing.providers import ProviderServer, Received, Reply
from leaves.crystals.models import PRICES
from tests.leaves.crystals.obedient import NO_SUCH_MODEL, Obedient
from tests.leaves.crystals.providers import ANTHROPIC, GEMINI, LOCAL, OPENAI, OPENROUTER, PROVIDERS, Provider
from tests.leaves.crystals.till import DEAREST, LIMIT, Till, TooDear, allowed, most_of

KEY = "a-key-that-nobody-may-see"
CONTRACT = Path(__file__).parent / "contract"
ROOT = Path(__file__).parents[3]
GEMINI_WAYS = ("generateContent", "streamGenerateContent")


async def run(*arguments: str, environ: Mapping[str, str], part: str = "") -> tuple[int, str]:
    """The contract's live half in another process: its status, and all that it has written."""
    ours = re.compile(r"COVEN_LIVE|PYTEST_|\w+_BASE_URL$|\w+_API_KEY$|COVEN_LOCAL_URL$")
    kept = {name: value for name, value in os.environ.items() if not ours.match(name)}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", str(CONTRACT / part), "-n0", "-rs", "-p", "no:cacheprovider", *arguments),
        cwd=ROOT,
        env={**kept, "COVEN_LIVE": "1", **environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, said.decode()


def leading_to(url: str) -> dict[str, str]:
    """The variables of whoever has all keys, and whose SDKs are sent elsewhere."""
    keys = {each.live: KEY for each in PROVIDERS}
    return keys | {
        "ANTHROPIC_BASE_URL": url,
        "OPENAI_BASE_URL": f"{url}/v1",
        "GOOGLE_GEMINI_BASE_URL": url,
        "OPENROUTER_BASE_URL": f"{url}/api/v1",
        "COVEN_LOCAL_URL": f"{url}/v1",
    }


PATHS = [
    (ANTHROPIC, {"/v1/messages"}),
    (OPENAI, {"/v1/responses"}),
    (GEMINI, {f"/v1/models/{GEMINI.cheap['model']}:{way}" for way in GEMINI_WAYS}),
    (OPENROUTER, {"/api/v1/chat/completions"}),
    (LOCAL, {"/v1/chat/completions"}),
]


def passed(said: str, provider: Provider) -> int:
    return len(re.findall(rf"PASSED .*{provider.name}-live", said))


@pytest.mark.chaos  # a long form: each takes ten seconds
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("provider", "paths"), PATHS, ids=lambda each: each.name if isinstance(each, Provider) else "")
async def test_with_its_key_the_same_suite_asks_the_service(provider: Provider, paths: set[str]):
    """All of it, of a cheap model, through this provider's own variables."""
    async with ProviderServer(key=KEY, answer=Obedient()) as server:
        status, said = await run("-rps", "-k", f"{provider.name}-live", environ=leading_to(server.url))
        asked = {request.path for request in server.requests if NO_SUCH_MODEL not in str(request)}
        models = {request.body.get("model") for request in server.requests}
    assert status == 0, said
    assert KEY not in said
    assert passed(said, provider) > 60
    assert asked == paths
    assert provider is GEMINI or provider.cheap.get("model", "loopback") in models


async def test_with_all_keys_the_same_calls_are_asked_of_every_service():
    """The short form of it."""
    async with ProviderServer(key=KEY, answer=Obedient()) as server:
        status, said = await run("-rps", "-k", "live", environ=leading_to(server.url), part="test_calls.py")
        asked = {request.path for request in server.requests}
    assert status == 0, said
    assert KEY not in said
    assert {passed(said, provider) for provider, _ in PATHS} == {passed(said, ANTHROPIC)} != {0}, said
    assert asked == set().union(*[paths for _, paths in PATHS])


async def test_without_a_key_it_says_which_one_is_missing():
    status, said = await run("-k", "test_text and live", environ={})
    assert status == 0, said
    for each in PROVIDERS:
        assert f"COVEN_LIVE=1, but {each.live} is not set" in said


async def test_a_failure_does_not_show_the_key():
    def tell(request: Received) -> Reply:
        return Reply(status=500, message=f"who sends me {request.headers}?")

    async with ProviderServer(key=KEY, answer=tell) as server:
        some = "test_text and (anthropic-live or local-live)"
        status, said = await run("-k", some, environ=leading_to(server.url))
    assert status == 1
    assert "[key]" in said
    assert KEY not in said


async def test_a_run_that_would_cost_more_than_it_may_asks_no_further():
    async with ProviderServer(key=KEY, answer=Obedient()) as server:
        environ = leading_to(server.url) | {LIMIT: "0.0000001"}
        status, said = await run("-k", "test_text and openai-live", environ=environ)
        assert server.requests == []
    assert status == 1
    assert "allow more with COVEN_LIVE_DOLLARS" in said


PRICE = Price(prompt=1, completion=10)
HELLO = CrystalRequest((Message("user", "Hello."),), sampling=Sampling(max_tokens=1000))


def test_a_request_is_paid_for_before_it_is_made_and_what_it_did_not_cost_comes_back():
    till = Till("some", PRICE, 0.05)
    reserved = till.reserve(HELLO)
    assert till.spent == reserved == PRICE.cost(most_of(HELLO)) > 0.01
    till.settle(reserved, Usage(prompt=10, completion=5))
    assert till.spent == pytest.approx(PRICE.cost(Usage(prompt=10, completion=5)))
    for _ in range(4):
        till.reserve(HELLO)  # and what was cancelled or failed stays paid
    with pytest.raises(TooDear, match="some may cost"):
        till.reserve(HELLO)


def test_a_call_that_is_insisted_on_may_cost_three_answers():
    required = CrystalRequest(HELLO.messages, (), "required", HELLO.sampling)
    assert most_of(required).completion == 3 * most_of(HELLO).completion


def test_a_model_that_somebody_names_counts_as_the_dearest_that_there_is():
    most = most_of(HELLO)
    assert all(price.cost(most) <= DEAREST.cost(most) for price in PRICES.values())


def test_processes_that_test_at_once_share_what_may_be_spent():
    assert allowed({}) == 0.10
    assert allowed({LIMIT: "1", "PYTEST_XDIST_WORKER_COUNT": "4"}) == 0.25
