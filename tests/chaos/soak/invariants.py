"""What must be true of a coven after any storm; each invariant gives what is wrong, a line each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from branches.agents.naming import run_id
from branches.agents.utterances import utterance_in
from journals._cursor import SOURCE
from journals._envelope import CLAIM_KIND, ID, KIND
from journals._jetstream._publisher import FENCE
from tests.chaos.soak.records import AnyRecord, Journals
from tests.chaos.soak.visitors import Visitors
from tests.chaos.soak.world import Said, World

Invariant = Callable[[Journals, World, Visitors, Path], Iterator[str]]
_ONCE = ("soak.once", "fs.write_text")


def nothing_waits(journals: Journals, world: World, visitors: Visitors, folder: Path) -> Iterator[str]:
    """Everything that was asked for has come."""
    yield from journals.waiting()


def each_effect_is_there_once(journals: Journals, world: World, visitors: Visitors, folder: Path) -> Iterator[str]:
    """One outcome each, in the journal as in the envelope."""
    outcomes = (
        ("chat", ("ChatAfferent",), lambda record: record.entry.message_id),
        ("agents", ("AgentPrompt",), lambda record: record.causation_id or record.id),
        ("agents", ("AgentResponse",), lambda record: record.causation_id),
        ("chat", ("ChatEfferentDraft",), lambda record: record.causation_id),
        ("chat", ("ChatEfferent",), lambda record: record.causation_id),
        ("chat", ("ChatDelivered", "ChatUndelivered"), lambda record: record.causation_id),
        ("spellcasting", ("SpellInvocation",), lambda record: record.entry.correlation_id),
        ("spellcasting", ("SpellStarted",), lambda record: record.entry.correlation_id),
        ("spellcasting", ("SpellResult", "SpellFault"), lambda record: record.entry.correlation_id),
        ("agents", ("AgentToolCall",), lambda record: record.entry.correlation_id),
        ("agents", ("AgentToolResult", "AgentToolFault"), lambda record: (record.lane, record.entry.correlation_id)),
        ("agents", ("ApprovalAsked",), lambda record: record.entry.correlation_id),
        ("chat", ("ChatQuestion",), lambda record: record.entry.correlation_id),
        ("chat", ("ChatAnswer",), lambda record: record.entry.correlation_id),
        ("agents", ("ApprovalGiven",), lambda record: record.entry.correlation_id),
    )
    for journal, kinds, key in outcomes:
        for of, records in _grouped(journals.of(journal, *kinds), key).items():
            if len(records) > 1:
                yield f"{len(records)} {'/'.join(kinds)} of {of}: at {[record.position for record in records]}"
    for name, stored in journals.stored.items():
        ids = Counter((each.subject, each.headers[ID]) for each in stored if each.headers.get(ID))
        yield from (f"{name} has id {id} {number} times" for id, number in ids.items() if number > 1)


def what_was_taken_is_there(journals: Journals, world: World, visitors: Visitors, folder: Path) -> Iterator[str]:
    """What was acknowledged to people is recorded, and nothing else is."""
    recorded = {record.entry.message_id for record in journals.of("chat", "ChatAfferent")}
    said = {said.id for said in world.said if said.is_prompt}
    if recorded != said:
        yield f"recorded {recorded - said} without being said, and not {said - recorded}"


def answers_come_in_order(journals: Journals, world: World, visitors: Visitors, folder: Path) -> Iterator[str]:
    """In each session everything on the way to people keeps the order of what they said."""
    asked: dict[str, list[str | None]] = defaultdict(list)
    for record in journals.of("chat", "ChatAfferent"):
        asked[record.session].append(record.id)
    for record in journals.of("agents", "AgentPrompt"):
        if record.origin == "http":
            asked[record.session].append(record.id)
    stages = (
        ("agents", "AgentPrompt"),
        ("agents", "AgentResponse"),
        ("chat", "ChatEfferentDraft"),
        ("chat", "ChatEfferent"),
        ("chat", "ChatDelivered"),
    )
    questions = _questions(journals)
    for journal, kind in stages:
        for session, records in _grouped(journals.of(journal, kind), lambda record: record.session).items():
            found = [
                record.correlation_id
                for record in records
                if record.causation_id not in questions and record.id not in questions
            ]
            if found != asked[session]:
                yield f"{kind} in {session}: {found}, asked {asked[session]}"


def people_are_told_what_is_recorded(
    journals: Journals, world: World, visitors: Visitors, folder: Path
) -> Iterator[str]:
    """A message under one id has one text, and first come in the order in which they were committed."""
    first: dict[str, tuple[str, str]] = {}
    for told in world.told:
        if first.setdefault(told.id, (told.session, told.text)) != (told.session, told.text):
            yield f"{told.id} was told as {first[told.id]} and as {told}"
    committed = {r.id: (r.session, r.entry.text) for r in journals.of("chat", "ChatEfferent") if not r.entry.question}
    if committed != first:
        yield f"told {set(first) ^ set(committed)}, which is not what is committed"
    for session in {session for session, _ in first.values()}:
        order = [id for id in first if first[id][0] == session]
        wanted = [id for id in committed if committed[id][0] == session]
        if order != wanted:
            yield f"in {session} people were told {order}, committed {wanted}"


def answers_say_what_was_done(journals: Journals, world: World, visitors: Visitors, folder: Path) -> Iterator[str]:
    """An answer belongs to its prompt, and names the outcome of each of its calls, in order."""
    asked = _asked(journals, world, visitors)
    is_code = bool(journals.of("agents", "CodeReturned"))
    for response in journals.of("agents", "AgentResponse"):
        said = asked.get(response.correlation_id or "")
        if said is None:
            yield f"the response at {response.position} answers nothing"
            continue
        entry = response.entry
        if entry.ending == "cancelled":
            continue
        if entry.ending != "terminated":
            yield f"{said.label} ended as {entry.ending}: {entry.text}"
            continue
        label, _, results = entry.text.partition(": ")
        given = results.split(" | ") if results else []
        turns = [turn.split("+") for turn in said.text.partition(": ")[2].split(", ") if turn]
        if is_code:  # one observation for each turn, which says what came of each of its calls
            wanted = [
                [f"step {turn}", *(f"{said.label}.{turn - 1}.{number}" for number in range(len(calls)))]
                for turn, calls in enumerate(turns, 1)
            ]
        else:
            wanted = [
                [f"{said.label}.{turn}.{number}"] for turn, calls in enumerate(turns) for number in range(len(calls))
            ]
        told = len(given) == len(wanted) and all(map(_tells, given, wanted))
        if label != said.label or not told:
            yield f"{said.label} ({said.text}) was answered {entry.text!r}"


def _asked(journals: Journals, world: World, visitors: Visitors) -> dict[str, Said]:
    """What people said, by the correlation ids of what became of it."""
    texts = {said.id: said for said in (*world.said, *visitors.asked)}
    taken = {record.id: texts[record.entry.message_id] for record in journals.of("chat", "ChatAfferent")}
    return taken | {said.id: said for said in visitors.asked}


def visitors_have_one_answer(journals: Journals, world: World, visitors: Visitors, folder: Path) -> Iterator[str]:
    """Whoever asks over HTTP has the answer that is recorded, however often they come."""
    recorded = {record.causation_id: record.entry for record in journals.of("agents", "AgentResponse")}
    for said in visitors.asked:
        answers, response = visitors.answers.get(said.id), recorded.get(said.id)
        if not answers or response is None:
            yield f"{said} has the answers {answers}; recorded is {response}"
        elif any(
            (each["ending"], each["error"] or each["answer"]) != (response.ending, response.text) for each in answers
        ):
            yield f"{said} was answered {answers}; recorded is {response}"


def _tells(observation: str, wanted: list[str]) -> bool:
    """Whether an observation tells of all of these, or of what nobody knows."""
    unknown = "was started" in observation or "timeout" in observation
    return unknown or all(name in observation for name in wanted)


def no_spell_is_repeated(journals: Journals, world: World, visitors: Visitors, folder: Path) -> Iterator[str]:
    """What must not be done twice was done once, or is in doubt; nothing was done without being started."""
    done = [line.split() for line in (folder / "effects.log").read_text().splitlines()]
    times = Counter((spell, call) for spell, call, _ in done)
    started = {record.entry.correlation_id for record in journals.of("spellcasting", "SpellStarted")}
    outcomes = {r.entry.correlation_id: r.entry for r in journals.of("spellcasting", "SpellResult", "SpellFault")}
    for invocation in journals.of("spellcasting", "SpellInvocation"):
        spell, call = invocation.entry.spell, invocation.entry.correlation_id
        outcome, number = outcomes.get(call), times[spell, call]
        code = getattr(outcome, "code", None)
        if spell == "soak.once" and (number > 1 or (code is None) != (number == 1 and code is None)):
            yield f"{spell} {call} was done {number} times, and came to {outcome}"
        if spell == "soak.once" and number and call not in started:
            yield f"{spell} {call} was done without being started"
        if spell == "soak.again" and (code is not None or not number):
            yield f"{spell} {call} was done {number} times, and came to {outcome}"
        if spell == "soak.refused" and code not in ("denied", "in_doubt"):
            yield f"{spell} {call} came to {outcome}"
        if code is not None and spell in _ONCE and code != "in_doubt":
            yield f"{spell} {call} came to {outcome}"
        if (
            spell == "fs.write_text"
            and code is None
            and not (folder / "workspace" / invocation.entry.arguments["path"]).exists()
        ):
            yield f"{spell} {call} has a result, and its file is not there"
    calls = {record.entry.correlation_id for record in journals.of("spellcasting", "SpellInvocation")}
    yield from (f"{line} was done, and nobody asked for it" for line in done if line[1] not in calls)


def a_doubt_has_a_reason(journals: Journals, world: World, visitors: Visitors, folder: Path) -> Iterator[str]:
    """A call is in doubt only if somebody took its session over behind its start."""
    claims = _claims(journals, "spellcasting")
    started = {record.entry.correlation_id: record for record in journals.of("spellcasting", "SpellStarted")}
    for fault in journals.of("spellcasting", "SpellFault"):
        if fault.entry.code == "in_doubt":
            start = started.get(fault.entry.correlation_id)
            if start is None or not any(start.position < at < fault.position for at in claims[fault.session]):
                yield f"the fault at {fault.position} is in doubt, and nobody took {fault.session} over since {start}"


def each_turn_is_paid_once_a_claim(journals: Journals, world: World, visitors: Visitors, folder: Path) -> Iterator[str]:
    """The crystal is asked only what is recorded before, and again only by who took the session over meanwhile."""
    claims = _claims(journals, "agents")
    called: dict[Hashable, list[AnyRecord]] = _grouped(
        journals.of("agents", "CrystalCalled"), lambda record: (record.entry.run, record.entry.turn)
    )
    said: dict[tuple[str, int], list[AnyRecord]] = defaultdict(list)
    for record in journals.records["agents"]:
        utterance = utterance_in(record)
        if utterance is not None:
            said[utterance.run, utterance.turn].append(record)
    for turn, records in said.items():
        if len(records) > 1:
            yield f"turn {turn} was answered at {[record.position for record in records]}"
        if not called.get(turn):
            yield f"turn {turn} was answered without being asked"
    failed = {(r.entry.run, r.entry.turn, r.entry.attempt) for r in journals.of("agents", "CrystalRetried")}
    for turn, attempts in called.items():
        for earlier, later in pairwise(attempts):
            if later.entry.attempt != earlier.entry.attempt + 1:
                yield f"attempt {later.entry.attempt} of turn {turn} follows {earlier.entry.attempt}"
            if (*turn, earlier.entry.attempt) not in failed and not any(
                earlier.position < at < later.position for at in claims[earlier.session]
            ):
                yield f"turn {turn} was asked at {earlier.position} and {later.position} under one claim"
        last = attempts[-1].position
        for record in said.get(turn, ()):  # pyright: ignore[reportArgumentType, reportCallIssue]
            if record.position < last:
                yield f"turn {turn} was asked at {last}, behind its answer at {record.position}"
    asked = Counter(each["label"] for each in world.seen if each["at"] == "ask")
    for label, run in _runs(journals).items():
        paid = sum(len(attempts) for (of, _), attempts in called.items() if of == run)  # type: ignore[misc]
        if asked[label] > paid:
            yield f"{label} was asked {asked[label]} times, of which {paid} are recorded"


def _runs(journals: Journals) -> dict[str, str]:
    """The runs by the labels of what they were asked, children's too."""
    runs = {
        record.entry.text.rpartition("ada: ")[2].partition(": ")[0]: run_id(record.id)
        for record in journals.of("agents", "AgentPrompt")
    }
    for record in journals.of("agents", "EntitySummoned"):
        runs[record.entry.intent.partition(": ")[0]] = record.correlation_id or ""
    return runs


def older_owners_are_refused(journals: Journals, world: World, visitors: Visitors, folder: Path) -> Iterator[str]:
    """Whoever wrote to a session's `out` lane knew all that stood there, the newest claim too."""
    for name, stored in journals.stored.items():
        heads: dict[str, int] = {}
        for each in stored:
            if each.subject.startswith("out."):
                fence, head = each.headers.get(FENCE), heads.get(each.subject, 0)
                if fence is not None and int(fence) != head:
                    yield f"{name} {each.position} on {each.subject} was written behind {fence}, not {head}"
                heads[each.subject] = each.position


def routes_keep_the_order(journals: Journals, world: World, visitors: Visitors, folder: Path) -> Iterator[str]:
    """What comes from one journal stands in every other one in the order in which it stood there."""
    for name, stored in journals.stored.items():
        reached: dict[str, int] = {}
        for each in stored:
            source = each.headers.get(SOURCE)
            if source is not None:
                pump, _, position = source.rpartition(":")
                if int(position) < reached.get(pump, 0):
                    yield f"{name} {each.position} comes from {source}, behind {reached[pump]}"
                reached[pump] = int(position)


def there_are_no_dead_letters(journals: Journals, world: World, visitors: Visitors, folder: Path) -> Iterator[str]:
    """Nothing that these people ask for is without a way."""
    yield from (f"dead letter {record}" for record in journals.records["dead-letters"])


def the_loom_tells_what_people_were_told(
    journals: Journals, world: World, visitors: Visitors, folder: Path
) -> Iterator[str]:
    """Each session folds to the intents and the answers that were exchanged in it, in order."""
    for session, loom in journals.looms.items():
        prompts = [record.entry.text for record in journals.of("agents", "AgentPrompt") if record.session == session]
        own = [turn for turn in loom.turns if turn.session == session]
        asked = [turn.intent for turn in own if turn.intent is not None and turn.intent in prompts]
        ended = [turn.result for turn in own if turn.ending == "terminated" and turn.result is not None]
        told = [
            record.entry.text
            for record in journals.of("agents", "AgentResponse")
            if record.session == session and record.entry.ending == "terminated"
        ]
        if loom.unreadable or [text for text in ended if text in told] != told:
            yield f"the loom of {session} tells {ended}, people were told {told}"
        if [text for text in prompts if text in asked] != asked:
            yield f"the loom of {session} was asked {asked}, prompted {prompts}"


INVARIANTS: tuple[Invariant, ...] = (
    nothing_waits,
    each_effect_is_there_once,
    what_was_taken_is_there,
    answers_come_in_order,
    people_are_told_what_is_recorded,
    answers_say_what_was_done,
    visitors_have_one_answer,
    no_spell_is_repeated,
    a_doubt_has_a_reason,
    each_turn_is_paid_once_a_claim,
    older_owners_are_refused,
    routes_keep_the_order,
    there_are_no_dead_letters,
    the_loom_tells_what_people_were_told,
)


def violations(journals: Journals, world: World, visitors: Visitors, folder: Path) -> list[str]:
    """All that is wrong."""
    return [f"{each.__name__}: {wrong}" for each in INVARIANTS for wrong in each(journals, world, visitors, folder)]


def _questions(journals: Journals) -> set[str]:
    """The ids of the messages that ask."""
    return {record.id for record in journals.of("chat", "ChatEfferent") if record.entry.question}


def _claims(journals: Journals, name: str) -> dict[str, list[int]]:
    """The positions of the claims on each session."""
    sessions = {record.session: None for record in journals.records[name]}
    from journals import Lane
    from journals._envelope import lane_subject

    subjects = {lane_subject(Lane.OUT, session): session for session in sessions}
    claims: dict[str, list[int]] = defaultdict(list)
    for each in journals.stored[name]:
        if each.headers.get(KIND) == CLAIM_KIND and each.subject in subjects:
            claims[subjects[each.subject]].append(each.position)
    return claims


def _grouped(records: Iterable[AnyRecord], key: Callable[[AnyRecord], Any]) -> dict[Any, list[AnyRecord]]:
    groups: dict[Any, list[AnyRecord]] = defaultdict(list)
    for record in records:
        groups[key(record)].append(record)
    return groups
