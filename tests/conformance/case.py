"""One case of a conformance suite: what is set up, what is done, and what must be true afterwards.

The keys are those of the Cantrip suite, and those that are marked `ours` in the docstrings. A key that stands in none
of these structs is an error of the file; a key of an `expect` that is given is asserted, always.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from branches.agents.wards import Ward

LANGUAGES = ("javascript", "python")
MEDIUMS = ("tools", *LANGUAGES)


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mapping of the file in which only these keys may stand."""


class Repeated(Strict):
    """A long text (ours): `{repeat: "x", times: 1000000}`."""

    repeat: str
    times: int

    @property
    def text(self) -> str:
        """The text itself."""
        return self.repeat * self.times


def whole(value: Any) -> Any:
    """The value, or the text that a `Repeated` mapping stands for."""
    if isinstance(value, Repeated):
        return value.text
    if isinstance(value, dict) and value.keys() == {"repeat", "times"}:
        return msgspec.convert(value, Repeated).text
    return value


class Tokens(Strict):
    """The usage of one response, and of all: `total_tokens` counts prompt and completion."""

    prompt_tokens: int | UnsetType = UNSET
    completion_tokens: int | UnsetType = UNSET
    cached_tokens: int | UnsetType = UNSET
    total_tokens: int | UnsetType = UNSET


class Call(Strict):
    """A gate call of a response. `arguments` is the text of its arguments as it stands, JSON or not (ours)."""

    gate: str
    args: Any = UNSET
    id: str | None = None
    arguments: str | None = None


class Failure(Strict):
    """A provider that answers with an HTTP status; `retry_after` is its header (ours)."""

    status: int
    message: str
    retry_after: str | None = None


class Response(Strict):
    """One answer of a crystal.

    `code` is JavaScript, or code by language, which is then run in each (ours). Ours, too: `thinking`; `hang`, it never
    answers; `drops`, it says this much and is then cut off; `bug`, it raises an exception that nobody expects;
    `native`, its tool calls stay tool calls also where the medium is a language.
    """

    content: str | Repeated | None = None
    tool_calls: list[Call] | None = None
    code: str | dict[Literal["javascript", "python"], str] | None = None
    error: Failure | None = None
    usage: Tokens | None = None
    thinking: str | None = None
    hang: bool = False
    drops: str | None = None
    bug: str | None = None
    native: bool = False


class Crystal(Strict):
    """A crystal with its script. When the script is used up it fails with `the script is used up`.

    `stateless` has the harness verify that each request was the whole context. `retry_behavior` has it verify that a
    failed attempt was followed by another. `name` is what `call_agent` may ask for. `insist` (ours): the provider
    cannot force a call, so it is asked again. `at_once` (ours): no answer comes before all of them are asked for.
    """

    responses: list[Response] = []
    usage: Tokens | None = None
    record_inputs: bool = False
    stateless: bool = False
    type: Literal["tools", "code_circle"] | None = None
    provider: Literal["mock_openai"] | None = None
    raw_response: dict[str, Any] | None = None
    retry_behavior: bool = False
    name: str | None = None
    insist: bool = False
    at_once: bool = False


class Gate(Strict):
    """A gate of the circle. One without `behavior` or `result` is of the harness's library, by its name.

    `behavior: hang` never answers, `unserialisable` gives what JSON cannot hold (both ours).
    """

    name: str
    parameters: dict[str, Any] | None = None
    description: str = ""
    behavior: Literal["delay", "throw", "hang", "unserialisable"] | None = None
    delay_ms: float = 0
    result: Any = UNSET
    error: str = "failed"
    dependencies: dict[str, Any] = {}
    ephemeral: bool = False


class Circle(Strict):
    """The circle. `type: code` is every medium that is a language; `medium` is one by name (ours)."""

    gates: list[str | Gate]
    wards: list[Ward]
    type: Literal["code", "tools"] | None = None
    medium: Literal["tools", "javascript", "python"] | None = None


class CallSetup(Strict):
    """The call. `call: null` is a cantrip without one."""

    system_prompt: str | None = None
    require_done_tool: bool = False
    tool_choice: Literal["auto", "required", "none"] = "auto"
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()


class FoldingSetup(Strict):
    """When the view is folded, and how (all but the first: ours)."""

    trigger_after_turns: int | None = None
    trigger_at_tokens: int | None = None
    keep_turns: int | None = None
    strategy: Literal["window", "summary", "selective"] | None = None


class RetrySetup(Strict):
    """When a failed attempt is made again."""

    max_retries: int | UnsetType = UNSET
    retryable_status_codes: tuple[int, ...] | UnsetType = UNSET


class Setup(Strict):
    """What exists before. Every key with `crystal` in its name is one: `crystals` has them by that key."""

    circle: Circle | None = None
    call: CallSetup | None = CallSetup()
    folding: FoldingSetup | None = None
    filesystem: dict[str, str] = {}
    retry: RetrySetup | None = None
    crystals: dict[str, Crystal | None] = {}


class Cast(Strict):
    """One episode of a new entity. `cancel` (ours): it is cancelled as soon as its crystal is asked."""

    intent: str | Repeated | None
    crystal: str = "crystal"
    cancel: bool = False


class Ask(Strict):
    """Episodes of one persistent entity, one after the other (ours)."""

    intents: list[str]
    crystal: str = "crystal"


class Fork(Strict):
    """An entity that goes on from a turn, counted from 1, of what was cast last. `call` (ours) is one of its own."""

    from_turn: int
    intent: str
    crystal: str = "crystal"
    call: CallSetup | None = None


class Reward(Strict):
    """A reward for a turn, counted from 0."""

    turn: int
    reward: float


class Then(Strict):
    """What is done after the cast.

    Ours: `mutate_turn` by its number from 0; `mutate_intent`, which hands over another intent in the place of the one
    that was recorded; `export`, which takes the loom through lines of JSON and back and raises unless it is the same.
    """

    mutate_call: dict[str, Any] | None = None
    delete_turn: int | None = None
    annotate_reward: Reward | None = None
    fork: Fork | None = None
    extract_thread: int | None = None
    mutate_turn: int | None = None
    mutate_intent: str | None = None
    export: bool = False


class Step(Strict):
    """One step of a case."""

    construct_cantrip: bool = False
    cast: Cast | None = None
    ask: Ask | None = None
    then: Then | list[Then] | None = None


class Message(Strict):
    """A message of a request. `is_error` is ours."""

    role: str | UnsetType = UNSET
    content: str | UnsetType | None = UNSET
    is_error: bool | UnsetType = UNSET


class Tool(Strict):
    """A tool of a request."""

    name: str
    description: str | UnsetType = UNSET
    parameters: dict[str, Any] | UnsetType = UNSET


class Invocation(Strict):
    """One request. The text searched for stands in the content of a message; what is excluded, nowhere in any.

    Ours: `last_message`, `tools` (their names), `tool_choice`, `message_roles`.
    """

    messages: list[Message] | UnsetType = UNSET
    message_count: int | UnsetType = UNSET
    message_roles: list[str] | UnsetType = UNSET
    first_message: Message | UnsetType = UNSET
    last_message: Message | UnsetType = UNSET
    messages_include: str | list[str] | UnsetType = UNSET
    messages_exclude: str | list[str] | UnsetType = UNSET
    message_count_includes: str | UnsetType = UNSET
    message_count_excludes: str | UnsetType = UNSET
    tools: list[str] | UnsetType = UNSET
    tool_choice: str | UnsetType = UNSET


class Metadata(Strict):
    """A turn's metadata; values may be matchers."""

    tokens_prompt: int | str | UnsetType = UNSET
    tokens_completion: int | str | UnsetType = UNSET
    tokens_cached: int | str | UnsetType = UNSET
    duration_ms: float | str | UnsetType = UNSET
    timestamp: str | UnsetType = UNSET


class Observed(Strict):
    """What a turn's gates gave: that some gave an error or none did, and texts that one of them gave."""

    is_error: bool | UnsetType = UNSET
    content: str | UnsetType = UNSET
    content_contains: str | UnsetType = UNSET


class GateCalled(Strict):
    """A gate call of a turn, whole (ours): the observation of D-005."""

    gate: str
    args: dict[str, Any] | UnsetType = UNSET
    result: Any = UNSET
    is_error: bool | UnsetType = UNSET
    tool_call_id: str | UnsetType | None = UNSET


class Turn(Strict):
    """A turn of the loom or of a thread. Texts may be `not_null`, `greater_than(1)` or `turns[0].id`.

    `entity_id` is a name for an entity: `parent` is the one that was cast, equal names are equal entities and others
    are others. `gate_calls` are the gates called, by name or whole. `role` splits a thread's turns in two, the entity's
    part and the circle's.
    """

    id: str | UnsetType | None = UNSET
    parent_id: str | UnsetType | None = UNSET
    cantrip_id: str | UnsetType | None = UNSET
    entity_id: str | UnsetType = UNSET
    sequence: int | UnsetType = UNSET
    role: Literal["entity", "circle"] | UnsetType = UNSET
    utterance: str | UnsetType | None = UNSET
    utterance_contains: str | UnsetType = UNSET
    observation: str | UnsetType | None = UNSET
    observation_contains: str | UnsetType = UNSET
    gate_calls: list[str | GateCalled] | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET
    reward: float | UnsetType | None = UNSET
    terminated: bool | UnsetType = UNSET
    truncated: bool | UnsetType = UNSET


class LoomCall(Strict):
    """The call at the root of the loom. `gates` are the names of its gates (ours)."""

    system_prompt: str | UnsetType | None = UNSET
    temperature: float | UnsetType | None = UNSET
    require_done_tool: bool | UnsetType = UNSET
    gates: list[str] | UnsetType = UNSET


class Loom(Strict):
    """The turns of everything that was cast, in the order in which they began. A list of turns is how it begins.

    Ours: `entities`, how many there are; `ids_unique`.
    """

    turn_count: int | UnsetType = UNSET
    turns: list[Turn] | UnsetType = UNSET
    call: LoomCall | UnsetType = UNSET
    entities: int | UnsetType = UNSET
    ids_unique: bool | UnsetType = UNSET


class Thread(Strict):
    """One thread: `turns` is how many it has."""

    turns: int | UnsetType = UNSET
    result: Any = UNSET
    last_turn: Turn | UnsetType = UNSET


class Expect(Strict):
    """What must be true afterwards.

    By pattern: `turn_1_observation` counts the turns of the entity that was cast from 1; `thread_0` the threads from 0;
    `<crystal>_invocations` is a number, or how the requests to that crystal began. Ours: `ending` and `ward` of the
    last episode, `endings` of all, `failure`, a part of what its error says; `gate_runs`, how often the function behind
    each gate ran; `retries`, the seconds waited before each further attempt; `crystal_received_sampling`.
    """

    error: str | UnsetType = UNSET
    result: Any = UNSET
    result_contains: str | UnsetType = UNSET
    results: list[Any] | UnsetType = UNSET
    entities: int | UnsetType = UNSET
    entity_ids_unique: bool | UnsetType = UNSET
    terminated: bool | UnsetType = UNSET
    truncated: bool | UnsetType = UNSET
    ending: str | UnsetType = UNSET
    endings: list[str] | UnsetType = UNSET
    ward: str | UnsetType | None = UNSET
    failure: str | UnsetType = UNSET
    turns: int | UnsetType = UNSET
    usage: Tokens | UnsetType = UNSET
    cumulative_usage: Tokens | UnsetType = UNSET
    gate_calls_executed: list[str] | UnsetType = UNSET
    gate_call_order: list[str] | UnsetType = UNSET
    gate_results: list[Any] | UnsetType = UNSET
    gate_runs: dict[str, int] | UnsetType = UNSET
    retries: list[float | str] | UnsetType = UNSET
    crystal_received_tool_choice: str | UnsetType = UNSET
    crystal_received_tools: list[Tool] | UnsetType = UNSET
    crystal_received_sampling: dict[str, Any] | UnsetType = UNSET
    loom: Loom | UnsetType = UNSET
    thread: list[Turn] | UnsetType = UNSET
    threads: int | UnsetType = UNSET
    invocations: dict[str, int | list[Invocation]] = {}
    observations: dict[int, Observed] = {}
    each_thread: dict[int, Thread] = {}


class Case(Strict):
    """A case, where it stands, and why it is skipped, if it is."""

    rule: str
    name: str
    also: list[str] = []
    skip: bool | str = False
    setup: Setup | None = None
    action: list[Step] = []
    expect: Expect | None = None
    where: str = ""

    @property
    def skipped(self) -> str | None:
        """Why there is nothing to run; None if there is."""
        if isinstance(self.skip, str):
            return self.skip
        if self.skip:
            return "the suite skips it"
        return "the suite leaves it empty" if self.setup is None else None
