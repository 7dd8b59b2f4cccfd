"""Holds what a case expects against what happened. Every key that is given is asserted by the method of its name.

Besides what is expected, a case fails when something was raised that it does not expect, when an episode failed
unexpectedly (unless because its script was used up, which is how a case says no more), when a `stateless` crystal was
not shown the whole context, and when nothing followed the failure of a crystal with `retry_behavior`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import UNSET

from branches.agents.crystal import CrystalRequest, Usage
from branches.agents.crystal import Message as Shown
from tests.conformance.case import (
    Case,
    Expect,
    GateCalled,
    Invocation,
    Loom,
    LoomCall,
    Message,
    Metadata,
    Observed,
    Strict,
    Thread,
    Tokens,
    Tool,
    Turn,
)
from tests.conformance.story import EpisodeSeen, Story, TurnSeen

USED_UP = "the script is used up"
_GREATER = re.compile(r"greater_than\((-?\d+(?:\.\d+)?)\)")
_REFERENCE = re.compile(r"turns\[(\d+)\]\.(\w+)")


def mismatches(case: Case, story: Story) -> list[str]:
    """All that is not as the case has it, one line each."""
    assert case.expect is not None
    checks = _Checks(case, case.expect, story)
    return [*checks.unexpected(), *checks.setup(), *checks.all(case.expect, "")]


class _Checks:
    def __init__(self, case: Case, expect: Expect, story: Story) -> None:
        self._case, self._expect, self._story = case, expect, story
        self._names: dict[str, str] = {}
        if story.episodes:
            self._names["parent"] = story.episodes[0].entity_id

    # ---- what no case expects

    def unexpected(self) -> Iterator[str]:
        expect, story = self._expect, self._story
        if story.error is not None and expect.error is UNSET:
            yield f"raised: {story.error}"
        said = (expect.error, expect.failure, expect.ending, expect.endings)
        if all(each is UNSET for each in said):
            for episode in story.episodes:
                if episode.ending == "failed" and USED_UP not in (episode.error or ""):
                    yield f"an episode failed: {episode.error}"

    def setup(self) -> Iterator[str]:
        assert self._case.setup is not None
        for name, crystal in self._case.setup.crystals.items():
            requests = self._story.requests.get(name, ())
            if crystal is not None and crystal.stateless:
                for before, after in pairwise(requests):
                    if list(after.messages)[: len(before.messages)] != list(before.messages):
                        yield f"{name} was not shown the whole context"
            if crystal is not None and crystal.retry_behavior:
                failures = [n for n, response in enumerate(crystal.responses) if response.error is not None]
                if not failures or len(requests) <= failures[-1] + 1:
                    yield f"{name} failed and was not asked again"

    # ---- the walk over an expectation

    def all(self, expected: Strict, prefix: str, *context: Any) -> Iterator[str]:
        """Assert every key that is given, by the method that is named after struct and key."""
        for field in msgspec.structs.fields(expected):
            value = getattr(expected, field.name)
            if value is UNSET or (field.name in ("invocations", "observations", "each_thread") and value == {}):
                continue
            check: Callable[..., Iterator[str]] = getattr(self, method(type(expected), field.name))
            for problem in check(value, *context):
                yield f"{prefix}{field.name}: {problem}"

    def _equal(self, expected: Any, actual: Any) -> Iterator[str]:
        if not same(expected, actual):
            yield f"expected {_short(expected)}, found {_short(actual)}"

    def _match(self, expected: Any, actual: Any) -> Iterator[str]:
        """Equality, or what a matcher demands."""
        text = expected if isinstance(expected, str) else ""
        greater, reference = _GREATER.fullmatch(text), _REFERENCE.fullmatch(text)
        if text == "not_null":
            if actual is None:
                yield "expected something, found null"
        elif greater is not None:
            if not isinstance(actual, int | float) or not actual > float(greater[1]):
                yield f"expected more than {greater[1]}, found {_short(actual)}"
        elif reference is not None:
            turns, index = self._story.turns, int(reference[1])
            if index >= len(turns):
                yield f"there is no {expected}: the loom has {len(turns)} turns"
            else:
                yield from self._equal(getattr(turns[index], reference[2]), actual)
        else:
            yield from self._equal(expected, actual)

    def _contains(self, expected: str, actual: Any) -> Iterator[str]:
        if not isinstance(actual, str) or expected not in actual:
            yield f"expected a text with {_short(expected)}, found {_short(actual)}"

    # ---- episodes

    def _last(self) -> EpisodeSeen | None:
        return self._story.episodes[-1] if self._story.episodes else None

    def _of_last(self, field: str) -> Any:
        last = self._last()
        return None if last is None else getattr(last, field)

    def expect_error(self, expected: str) -> Iterator[str]:
        found = self._story.error
        if found is None and self._of_last("ending") == "failed":
            found = self._of_last("error")
        yield from self._contains(expected, found)

    def expect_result(self, expected: Any) -> Iterator[str]:
        episodes = self._story.episodes
        yield from self._equal(expected, episodes[0].result if episodes else None)

    def expect_result_contains(self, expected: str) -> Iterator[str]:
        yield from self._contains(expected, self._story.episodes[0].result if self._story.episodes else None)

    def expect_results(self, expected: list[Any]) -> Iterator[str]:
        yield from self._equal(expected, [episode.result for episode in self._story.episodes])

    def expect_entities(self, expected: int) -> Iterator[str]:
        yield from self._equal(expected, len({episode.entity_id for episode in self._story.episodes}))

    def expect_entity_ids_unique(self, expected: bool) -> Iterator[str]:
        ids = [episode.entity_id for episode in self._story.episodes]
        yield from self._equal(expected, len(ids) > 0 and len(set(ids)) == len(ids))

    def expect_terminated(self, expected: bool) -> Iterator[str]:
        yield from self._ended(expected, "terminated")

    def expect_truncated(self, expected: bool) -> Iterator[str]:
        yield from self._ended(expected, "truncated")

    def _ended(self, expected: bool, how: str) -> Iterator[str]:
        """Both the response and the last turn in the loom must say so."""
        yield from self._equal(expected, self._of_last("ending") == how)
        last = self._last()
        if last is not None and last.thread:
            yield from self._equal(expected, getattr(self._story.turn(last.thread[-1]), how))

    def expect_ending(self, expected: str) -> Iterator[str]:
        yield from self._equal(expected, self._of_last("ending"))

    def expect_endings(self, expected: list[str]) -> Iterator[str]:
        yield from self._equal(expected, [episode.ending for episode in self._story.episodes])

    def expect_ward(self, expected: str | None) -> Iterator[str]:
        yield from self._equal(expected, self._of_last("ward"))

    def expect_failure(self, expected: str) -> Iterator[str]:
        yield from self._contains(expected, self._of_last("error"))

    def expect_turns(self, expected: int) -> Iterator[str]:
        yield from self._equal(expected, self._of_last("turns"))

    def expect_usage(self, expected: Tokens) -> Iterator[str]:
        yield from self._tokens(expected)

    def expect_cumulative_usage(self, expected: Tokens) -> Iterator[str]:
        yield from self._tokens(expected)

    def _tokens(self, expected: Tokens) -> Iterator[str]:
        usage = self._of_last("usage") or Usage()
        found = {
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.completion,
            "cached_tokens": usage.cached,
            "total_tokens": usage.prompt + usage.completion,
        }
        for key, value in msgspec.to_builtins(expected).items():
            for problem in self._equal(value, found[key]):
                yield f"{key}: {problem}"

    # ---- gates

    def _calls(self) -> list[Any]:
        last = self._last()
        ids = () if last is None else last.thread
        return [call for id in ids for call in self._story.turn(id).gate_calls]

    def expect_gate_call_order(self, expected: list[str]) -> Iterator[str]:
        yield from self._equal(expected, [call.gate for call in self._calls()])

    def expect_gate_results(self, expected: list[Any]) -> Iterator[str]:
        yield from self._equal(expected, [call.result for call in self._calls()])

    def expect_gate_calls_executed(self, expected: list[str]) -> Iterator[str]:
        ran, served = Counter(self._story.runs), set(self._story.runs)
        executed: list[str] = []
        for call in self._calls():
            if call.gate in served and ran[call.gate] > 0:
                ran[call.gate] -= 1
                executed.append(call.gate)
            elif call.gate not in served and not call.is_error:
                executed.append(call.gate)
        yield from self._equal(expected, executed)

    def expect_gate_runs(self, expected: dict[str, int]) -> Iterator[str]:
        yield from self._equal(expected, dict(Counter(self._story.runs)))

    def expect_retries(self, expected: list[float | str]) -> Iterator[str]:
        if len(expected) != len(self._story.retries):
            yield f"expected {len(expected)} retries, found {list(self._story.retries)}"
        for each, seconds in zip(expected, self._story.retries, strict=False):
            yield from self._match(each, seconds)

    def expect_observations(self, expected: dict[int, Observed]) -> Iterator[str]:
        for number, each in expected.items():
            yield from self.all(each, f"turn_{number}_observation.", number)

    def _observations(self, number: int) -> list[tuple[str, bool]]:
        """What the gates gave in a turn of the entity that was cast: its gate calls, and the code around them."""
        own = [turn for turn in self._story.turns if turn.entity_id == self._names.get("parent")]
        if number > len(own):
            return []
        turn = own[number - 1]
        given = [(_text(call.result), call.is_error) for call in turn.gate_calls]
        return [*given, *((message.content or "", message.is_error) for message in self._shown_of(number))]

    def _shown_of(self, number: int) -> list[Shown]:
        """The gates' answers of a turn in the request that came right after it."""
        if not self._story.episodes:
            return []
        intent = self._story.episodes[0].intent
        for requests in self._story.requests.values():
            for request in requests:
                messages = list(request.messages)
                spoken = [n for n, message in enumerate(messages) if message.role == "assistant"]
                asked = next((message.content for message in messages if message.role == "user"), None)
                if len(spoken) == number and asked == intent:
                    return [message for message in messages[spoken[-1] :] if message.role == "tool"]
        return []

    def observed_is_error(self, expected: bool, number: int) -> Iterator[str]:
        yield from self._equal(expected, any(is_error for _, is_error in self._observations(number)))

    def observed_content(self, expected: str, number: int) -> Iterator[str]:
        found = [text for text, _ in self._observations(number)]
        if expected not in found:
            yield f"expected {_short(expected)}, found {_short(found)}"

    def observed_content_contains(self, expected: str, number: int) -> Iterator[str]:
        found = [text for text, _ in self._observations(number)]
        if not any(expected in text for text in found):
            yield f"expected a text with {_short(expected)}, found {_short(found)}"

    # ---- requests

    def _main(self) -> tuple[CrystalRequest, ...]:
        return self._story.requests.get("crystal", ())

    def expect_crystal_received_tool_choice(self, expected: str) -> Iterator[str]:
        yield from self._equal([expected], sorted({request.tool_choice for request in self._main()}))

    def expect_crystal_received_tools(self, expected: list[Tool]) -> Iterator[str]:
        if not self._main():
            yield "the crystal was not asked"
        for request in self._main():
            if len(request.tools) != len(expected):
                yield f"expected {len(expected)} tools, found {[tool.name for tool in request.tools]}"
                continue
            for wanted, tool in zip(expected, request.tools, strict=True):
                for key, value in msgspec.to_builtins(wanted).items():
                    for problem in self._equal(value, getattr(tool, key)):
                        yield f"{tool.name}.{key}: {problem}"

    def expect_crystal_received_sampling(self, expected: dict[str, Any]) -> Iterator[str]:
        if not self._main():
            yield "the crystal was not asked"
        for request in self._main():
            yield from self._equal(expected, msgspec.to_builtins(request.sampling))

    def expect_invocations(self, expected: dict[str, int | list[Invocation]]) -> Iterator[str]:
        for name, wanted in expected.items():
            requests = self._story.requests.get(name, ())
            if isinstance(wanted, int):
                for problem in self._equal(wanted, len(requests)):
                    yield f"{name}: {problem}"
                continue
            if len(requests) < len(wanted):
                yield f"{name}: asked {len(requests)} times, {len(wanted)} are described"
            for number, (each, request) in enumerate(zip(wanted, requests, strict=False)):
                yield from self.all(each, f"{name}[{number}].", request)

    def invocation_messages(self, expected: list[Message], request: CrystalRequest) -> Iterator[str]:
        if len(expected) != len(request.messages):
            yield f"expected {len(expected)} messages, found {[_short(m) for m in request.messages]}"
            return
        for number, (each, message) in enumerate(zip(expected, request.messages, strict=True)):
            yield from self.all(each, f"[{number}].", message)

    def invocation_message_count(self, expected: int, request: CrystalRequest) -> Iterator[str]:
        yield from self._equal(expected, len(request.messages))

    def invocation_message_roles(self, expected: list[str], request: CrystalRequest) -> Iterator[str]:
        yield from self._equal(expected, [message.role for message in request.messages])

    def invocation_first_message(self, expected: Message, request: CrystalRequest) -> Iterator[str]:
        yield from self.all(expected, "", request.messages[0])

    def invocation_last_message(self, expected: Message, request: CrystalRequest) -> Iterator[str]:
        yield from self.all(expected, "", request.messages[-1])

    def invocation_messages_include(self, expected: str | list[str], request: CrystalRequest) -> Iterator[str]:
        for text in [expected] if isinstance(expected, str) else expected:
            if not any(text in (message.content or "") for message in request.messages):
                yield f"expected {_short(text)} in {[_short(m.content) for m in request.messages]}"

    def invocation_messages_exclude(self, expected: str | list[str], request: CrystalRequest) -> Iterator[str]:
        for text in [expected] if isinstance(expected, str) else expected:
            for message in request.messages:
                said = [message.content or "", *(call.arguments for call in message.tool_calls)]
                if any(text in each for each in said):
                    yield f"{_short(text)} stands in {_short(said)}"

    def invocation_message_count_includes(self, expected: str, request: CrystalRequest) -> Iterator[str]:
        yield from self.invocation_messages_include(expected, request)

    def invocation_message_count_excludes(self, expected: str, request: CrystalRequest) -> Iterator[str]:
        yield from self.invocation_messages_exclude(expected, request)

    def invocation_tools(self, expected: list[str], request: CrystalRequest) -> Iterator[str]:
        yield from self._equal(expected, [tool.name for tool in request.tools])

    def invocation_tool_choice(self, expected: str, request: CrystalRequest) -> Iterator[str]:
        yield from self._equal(expected, request.tool_choice)

    def message_role(self, expected: str, message: Shown) -> Iterator[str]:
        yield from self._equal(expected, message.role)

    def message_content(self, expected: str | None, message: Shown) -> Iterator[str]:
        yield from self._equal(expected, message.content)

    def message_is_error(self, expected: bool, message: Shown) -> Iterator[str]:
        yield from self._equal(expected, message.is_error)

    # ---- the loom and its threads

    def expect_loom(self, expected: Loom) -> Iterator[str]:
        yield from self.all(expected, "")

    def loom_turn_count(self, expected: int) -> Iterator[str]:
        yield from self._equal(expected, len(self._story.turns))

    def loom_turns(self, expected: list[Turn]) -> Iterator[str]:
        turns = self._story.turns
        if len(turns) < len(expected):
            yield f"expected {len(expected)} turns at least, found {len(turns)}"
        for number, (each, turn) in enumerate(zip(expected, turns, strict=False)):
            yield from self.all(each, f"[{number}].", turn)

    def loom_call(self, expected: LoomCall) -> Iterator[str]:
        if self._story.call is None:
            yield "the loom has no call"
            return
        for key, value in msgspec.to_builtins(expected).items():
            for problem in self._equal(value, self._story.call.get(key)):
                yield f"{key}: {problem}"

    def loom_entities(self, expected: int) -> Iterator[str]:
        yield from self._equal(expected, len({turn.entity_id for turn in self._story.turns}))

    def loom_ids_unique(self, expected: bool) -> Iterator[str]:
        ids = [turn.id for turn in self._story.turns]
        yield from self._equal(expected, len(set(ids)) == len(ids) > 0)

    def expect_threads(self, expected: int) -> Iterator[str]:
        yield from self._equal(expected, self._story.threads)

    def expect_each_thread(self, expected: dict[int, Thread]) -> Iterator[str]:
        for number, each in expected.items():
            if number >= len(self._story.episodes):
                yield f"there is no thread {number}"
            else:
                yield from self.all(each, f"thread_{number}.", self._story.episodes[number])

    def thread_turns(self, expected: int, episode: EpisodeSeen) -> Iterator[str]:
        yield from self._equal(expected, len(episode.thread))

    def thread_result(self, expected: Any, episode: EpisodeSeen) -> Iterator[str]:
        yield from self._equal(expected, episode.result)

    def thread_last_turn(self, expected: Turn, episode: EpisodeSeen) -> Iterator[str]:
        if not episode.thread:
            yield "the thread has no turn"
        else:
            yield from self.all(expected, "", self._story.turn(episode.thread[-1]))

    def expect_thread(self, expected: list[Turn]) -> Iterator[str]:
        turns: Sequence[TurnSeen] = self._story.extracted or ()
        if self._story.extracted is None and self._story.episodes:
            turns = [self._story.turn(id) for id in self._story.episodes[0].thread]
        halves = any(each.role is not UNSET for each in expected)
        found = [turn for turn in turns for _ in range(2 if halves else 1)]
        if len(found) != len(expected):
            yield f"expected {len(expected)} entries, found {len(found)}"
        for number, (each, turn) in enumerate(zip(expected, found, strict=False)):
            if halves:
                role = ("entity", "circle")[number % 2]
                yield from self._equal(each.role, role)
                if (turn.utterance if role == "entity" else turn.observation) is None:
                    yield f"[{number}]: the turn has nothing of the {role}"
            yield from self.all(each, f"[{number}].", turn)

    def turn_id(self, expected: str | None, turn: TurnSeen) -> Iterator[str]:
        yield from self._match(expected, turn.id)

    def turn_parent_id(self, expected: str | None, turn: TurnSeen) -> Iterator[str]:
        yield from self._match(expected, turn.parent_id)

    def turn_cantrip_id(self, expected: str | None, turn: TurnSeen) -> Iterator[str]:
        yield from self._match(expected, turn.cantrip_id)

    def turn_entity_id(self, expected: str, turn: TurnSeen) -> Iterator[str]:
        """A name is bound to the first entity that bears it; one entity has one name."""
        if self._names.setdefault(expected, turn.entity_id) != turn.entity_id:
            yield f"it is not the entity {expected!r} of before"
        if sum(id == turn.entity_id for id in self._names.values()) > 1:
            yield f"it has another name than {expected!r}"

    def turn_sequence(self, expected: int, turn: TurnSeen) -> Iterator[str]:
        yield from self._match(expected, turn.sequence)

    def turn_role(self, expected: str, turn: TurnSeen) -> Iterator[str]:
        """Asserted by `expect_thread`, which knows the place."""
        yield from ()

    def turn_utterance(self, expected: str | None, turn: TurnSeen) -> Iterator[str]:
        yield from self._match(expected, turn.utterance)

    def turn_utterance_contains(self, expected: str, turn: TurnSeen) -> Iterator[str]:
        yield from self._contains(expected, turn.utterance)

    def turn_observation(self, expected: str | None, turn: TurnSeen) -> Iterator[str]:
        yield from self._match(expected, turn.observation)

    def turn_observation_contains(self, expected: str, turn: TurnSeen) -> Iterator[str]:
        yield from self._contains(expected, turn.observation)

    def turn_gate_calls(self, expected: list[str | GateCalled], turn: TurnSeen) -> Iterator[str]:
        names = [each if isinstance(each, str) else each.gate for each in expected]
        yield from self._equal(names, [call.gate for call in turn.gate_calls])
        for number, (each, call) in enumerate(zip(expected, turn.gate_calls, strict=False)):
            for key, value in {} if isinstance(each, str) else msgspec.to_builtins(each).items():
                for problem in self._match(value, getattr(call, key)):
                    yield f"[{number}].{key}: {problem}"

    def turn_metadata(self, expected: Metadata, turn: TurnSeen) -> Iterator[str]:
        for key, value in msgspec.to_builtins(expected).items():
            for problem in self._match(value, turn.metadata.get(key)):
                yield f"{key}: {problem}"

    def turn_reward(self, expected: float | None, turn: TurnSeen) -> Iterator[str]:
        yield from self._match(expected, turn.reward)

    def turn_terminated(self, expected: bool, turn: TurnSeen) -> Iterator[str]:
        yield from self._equal(expected, turn.terminated)

    def turn_truncated(self, expected: bool, turn: TurnSeen) -> Iterator[str]:
        yield from self._equal(expected, turn.truncated)


def method(struct: type[Strict], field: str) -> str:
    """The name of the method that asserts a field of a struct."""
    return f"{struct.__name__.lower()}_{field}"


WALKED: tuple[type[Strict], ...] = (Expect, Observed, Invocation, Message, Loom, Thread, Turn)
"""The structs whose fields are asserted by methods; those of the others are compared whole, field by field."""
CHECKS = _Checks


def same(expected: Any, actual: Any) -> bool:
    """Equality of JSON values in which true is not 1, and 42 is not "42"."""
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(expected, int | float) and isinstance(actual, int | float):
        return expected == actual
    if isinstance(expected, dict) and isinstance(actual, dict):
        return expected.keys() == actual.keys() and all(same(expected[key], actual[key]) for key in expected)
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        return len(expected) == len(actual) and all(map(same, expected, actual))
    return type(expected) is type(actual) and expected == actual


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:300]}… ({len(text)} characters)"
