"""An agent that searches the web to answer a question: a model, a tool, and an orchestrator between them.

    python search_agent.py "What is the latest Python version?"
    python search_agent.py --journal ./memory "What is the latest Python version?"

Model and web are stand-ins that answer from this file, so it runs offline and says the same each time. Put a real
client into `complete` and `search`, and nothing else changes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from journals import EmbeddedServer, JetStreamStore
from policies import (
    Action,
    Context,
    Ledger,
    PolicyRegistry,
    Step,
    action_call,
    error_result,
    fingerprint,
    invoke_action,
    loop_wrapper,
    run,
    run_registry,
    text,
)

registry = PolicyRegistry()
asked: Counter[str] = Counter()
"""How often model and web were really asked."""


@registry.effect("llm_policy", repeatable=True)
async def llm_policy(action: Action, ctx: Context) -> list[Step]:
    """Decide what to say, or what to do, over the ledger."""
    messages: list[dict[str, Any]] = []
    for step in await ctx.get_ledger():
        if step.type == "text":
            messages.append({"role": step.actor, "content": step.payload["text"]})
        elif step.type == "action_call":
            messages.append({"role": "assistant", "tool_call": dict(step.payload)})
        elif step.type == "action_result":
            messages.append({"role": "tool", "content": json.dumps(step.payload)})
    answer = await complete(messages, [tool(name) for name in sorted(action.actions)])
    steps = [text("assistant", answer["content"])] if answer["content"] else []
    for call in answer["tool_calls"]:
        # The model decides to call a tool; the decorator around it makes the call.
        steps.append(action_call("assistant", Action(call["name"], json.loads(call["arguments"]))))
    return steps


@registry.effect("web_search_policy", idempotent=True)
async def web_search_policy(query: str, limit: int = 3) -> dict[str, Any] | Step:
    """Search the web for pages that have the words of the query."""
    found = await search(query, limit)
    return {"results": found} if found else error_result("web_search_policy", "NOT_FOUND", f"nothing on {query!r}")


@registry.orchestrator("search_agent", actions=["llm_policy", "web_search_policy"])
async def search_agent(action: Action, ctx: Context) -> list[Step]:
    """Answer a question, with access to web search."""
    question = text("user", action.payload["question"])
    return await ctx.call(
        Action("llm_policy", {"model": "stand-in"}, actions=frozenset({"web_search_policy"})),
        decorators=[loop_wrapper(max_turns=5), invoke_action()],
        ledger=(await ctx.get_ledger()).append(question),
    )


def tool(name: str) -> dict[str, Any]:
    """A policy as a model is told of it."""
    policy = registry[name]
    return {"name": name, "description": policy.description, "parameters": policy.input_schema}


# What stands in for the outside world.

PAGES = {
    "https://www.python.org/downloads/": "Python 3.13 is the latest feature release of the Python language.",
    "https://peps.python.org/pep-0719/": "Python 3.13 release schedule: the final release came out on 2024-10-07.",
    "https://docs.nats.io/": "JetStream is the persistence engine that is built into the NATS server.",
}
SMALL_WORDS = {"a", "an", "and", "is", "of", "on", "the", "what", "which", "who", "when", "did", "come", "out"}


async def complete(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A model that searches once, and says the first sentence that it found."""
    asked["model"] += 1
    last = messages[-1]
    if last["role"] == "user" and tools:
        words = [word.strip("?!.,").lower() for word in last["content"].split()]
        query = " ".join(word for word in words if word not in SMALL_WORDS)
        calls = [{"name": tools[0]["name"], "arguments": json.dumps({"query": query})}]
        return {"content": "Let me search for that.", "tool_calls": calls}
    found = json.loads(last["content"])
    said = f"I found nothing: {found['message']}" if found.get("error") else found["results"][0]["text"]
    return {"content": said, "tool_calls": []}


async def search(query: str, limit: int) -> list[dict[str, str]]:
    """The pages that have most of the words, best first."""
    asked["web"] += 1
    words = set(query.lower().split())
    hits = {url: len(words & {word.strip(".:") for word in page.lower().split()}) for url, page in PAGES.items()}
    best = sorted((url for url, count in hits.items() if count), key=lambda url: (-hits[url], url))
    return [{"url": url, "text": PAGES[url]} for url in best[:limit]]


async def answer(question: str, journal_folder: Path | None) -> Ledger:
    """Run the agent; with a folder its run is kept there, and never done twice."""
    payload = {"question": question}
    if journal_folder is None:
        return await run("search_agent", payload, registry)
    async with (
        EmbeddedServer(journal_folder) as server,
        await JetStreamStore.connect(server.url, "search", token=server.token) as store,
    ):
        journal = await store.open("runs", run_registry())
        return await run("search_agent", payload, registry, journal=journal, run_id=fingerprint(payload))


def main() -> None:
    """Answer the question on the command line, and say what it took."""
    parser = argparse.ArgumentParser(description="Answer a question by searching.")
    parser.add_argument("question")
    parser.add_argument("--journal", type=Path, help="a folder in which runs are kept")
    options = parser.parse_args()
    ledger = asyncio.run(answer(options.question, options.journal))
    print(ledger[-1].payload["text"])
    print(f"(the model was asked {asked['model']} times, the web {asked['web']} times)")


if __name__ == "__main__":
    main()
