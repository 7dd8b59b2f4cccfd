"""A request to a model: through a crystal, and through the provider's bare SDK, at the same server on loopback."""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.harness import Profile, Result, alone, compare, take_turns
from branches.agents.crystal import CrystalRequest, Message, ToolCall
from branches.agents.gates import DONE
from branches.agents.permission import VARIABLE
from branches.secret import Secret
from leaves.crystals._names import Names

_REQUESTS = 20
_MOST_ON_TOP_MS = 1.0
_TURNS = 20
_BARE = "the bare SDK"
_KEY = "loopback-key"
_MODELS = {"anthropic": "claude-sonnet-5-5", "openai": "gpt-6.1-terra", "gemini": "gemini-3.8-flash"}
_SERVE = """
import asyncio
from coven.testing.providers import ProviderServer, Reply

class Always(list):
    def pop(self, index=0):
        return Reply(text="Good morning. " * 10, prompt_tokens=100, completion_tokens=30)
    def __bool__(self):
        return True

async def main():
    async with ProviderServer() as server:
        server.replies = Always()
        print(server.url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def _conversation() -> tuple[Message, ...]:
    """Twenty turns with a call each, as an entity has them after a while."""
    messages = [Message("system", "You are the keeper of this workspace. " * 20), Message("user", "What is in a.txt?")]
    for number in range(_TURNS):
        call = ToolCall(f"call_{number}", "done", '{"answer": "x"}')
        messages += [Message("assistant", "I look.", (call,)), Message("tool", "a line\n" * 20, tool_call_id=call.id)]
    return tuple(messages)


_REQUEST = CrystalRequest(_conversation(), (DONE,))


def _key() -> Secret:
    return Secret("${KEY}", {"KEY": _KEY})


def _anthropic(url: str) -> tuple[Any, Callable[[bool], Awaitable[None]]]:
    from anthropic import AsyncAnthropic

    from leaves.crystals._anthropic import build
    from leaves.crystals.anthropic import AnthropicCrystal, AnthropicOptions

    client: Any = AsyncAnthropic(api_key=_KEY, base_url=url, max_retries=0, timeout=60.0)
    body = {"model": _MODELS["anthropic"], "max_tokens": 1000, **build(_REQUEST, "anthropic/x").body}

    async def ask(stream: bool) -> None:
        if not stream:
            await client.messages.create(**body)
            return
        async with await client.messages.create(**body, stream=True) as events:
            async for _ in events:
                pass

    return AnthropicCrystal(AnthropicOptions(base_url=url, api_key=_key())), ask


def _openai(url: str) -> tuple[Any, Callable[[bool], Awaitable[None]]]:
    from openai import AsyncOpenAI

    from leaves.crystals._responses import build
    from leaves.crystals.openai import OpenAICrystal, OpenAIOptions

    client: Any = AsyncOpenAI(api_key=_KEY, base_url=f"{url}/v1", max_retries=0, timeout=60.0)
    asked = build(_REQUEST, "openai/x", Names(["done"]))
    body = {"model": _MODELS["openai"], "store": False, "include": ["reasoning.encrypted_content"], **asked}

    async def ask(stream: bool) -> None:
        if not stream:
            await client.responses.create(**body)
            return
        async with await client.responses.create(**body, stream=True) as events:
            async for _ in events:
                pass

    return OpenAICrystal(OpenAIOptions(base_url=f"{url}/v1", api_key=_key())), ask


def _gemini(url: str) -> tuple[Any, Callable[[bool], Awaitable[None]]]:
    from google.genai import Client
    from httpx2 import AsyncClient

    from leaves.crystals._gemini import contents, tools
    from leaves.crystals.gemini import GeminiCrystal, GeminiOptions

    options: Any = {"base_url": url, "httpx_async_client": AsyncClient(timeout=60.0)}
    client = Client(api_key=_KEY, vertexai=False, http_options=options)
    names = Names(["done"])
    system, said = contents(_REQUEST, "gemini/x", names)
    config: Any = {"system_instruction": system, **tools(_REQUEST, names)}
    body: dict[str, Any] = {"model": _MODELS["gemini"], "contents": said, "config": config}

    async def ask(stream: bool) -> None:
        if not stream:
            await client.aio.models.generate_content(**body)
            return
        async for _ in await client.aio.models.generate_content_stream(**body):
            pass

    return GeminiCrystal(GeminiOptions(base_url=url, api_key=_key())), ask


_CONTESTANTS = {"anthropic": _anthropic, "openai": _openai, "gemini": _gemini}


def _timed(
    work: Callable[[], Awaitable[object]], clock: Callable[[], float] = time.perf_counter
) -> Callable[[], Awaitable[float]]:
    async def many() -> float:
        began = clock()
        for _ in range(_REQUESTS):
            await work()
        return (clock() - began) / _REQUESTS * 1000

    return many


async def _measure(name: str, url: str, stream: bool, rounds: int) -> list[Result]:
    crystal, ask = _CONTESTANTS[name](url)
    on_text = (lambda text: None) if stream else None
    what = f"crystal {name}, {'stream' if stream else 'request'}"
    results: list[Result] = []
    # Processor time tells on a busy machine what the clock does not; it leaves the waiting out.
    for unit, clock in (("ms", time.perf_counter), ("ms of CPU", time.process_time)):
        figures = await take_turns(
            {
                "coven": _timed(lambda: crystal.invoke(_REQUEST, on_text), clock),
                _BARE: _timed(lambda: ask(stream), clock),
            },
            rounds,
        )
        on_top = statistics.median(ours - theirs for ours, theirs in zip(figures["coven"], figures[_BARE], strict=True))
        most = max(_MOST_ON_TOP_MS, 0.1 * statistics.median(figures[_BARE]))
        results += compare(what, "-", unit, figures, {}, better="lower")
        results.append(alone(f"{what}: on top", "-", unit, on_top, most))
    await crystal.close()
    return results


async def run(profile: Profile, scale: float) -> list[Result]:
    """Requests and streams of three SDKs. The server is a process of its own; no journal is involved."""
    os.environ.pop(VARIABLE, None)
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", _SERVE, stdout=asyncio.subprocess.PIPE)
    try:
        assert server.stdout is not None
        url = (await server.stdout.readline()).decode().strip()
        results: list[Result] = []
        for name in _CONTESTANTS:
            for stream in (False, True):
                results += await _measure(name, url, stream, max(3, int(20 * scale)))
        return results
    finally:
        server.terminate()
        await server.wait()
