"""Images that come with a prompt, and files that go with an answer."""

from __future__ import annotations

import asyncio
import hashlib

import msgspec
import pytest

from branches.agents import AgentResponse, AgentToolCall, AgentToolResult
from branches.agents.call import Call
from branches.agents.cantrip import Cantrip
from branches.agents.circle import circle
from branches.agents.crystal import CrystalRequest, CrystalResponse, Message
from branches.agents.folding import IMAGE_TOKENS, Folding, estimate_tokens
from branches.agents.forking import fork
from branches.agents.loom import export_loom, import_loom, read_loom
from branches.agents.wards import Ward
from branches.attachment import Attachment
from coven.testing import ScriptedCrystal, calls, finishes, says
from journals import Journal, Store, derive_id
from tests.branches.agents.bench import Bench, options
from tests.policies.bench import DyingLog

PNG = Attachment("chart.png", "image/png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
LARGE = Attachment("photo.jpg", "image/jpeg", b"\xff\xd8\xff" + bytes(2_000_000))
REPORT = Attachment("report.pdf", "application/pdf", b"%PDF-")


def images(request: CrystalRequest) -> list[str]:
    return [image.name for message in request.messages for image in message.images]


async def test_the_crystal_is_shown_the_images_of_a_prompt_and_no_other_files() -> None:
    bench, crystal = Bench(), ScriptedCrystal([says("a chart"), says("it rises")])
    async with bench.serve(crystal):
        await bench.response(await bench.ask("what is this?", attachments=(PNG, REPORT)))
        await bench.talk("and?")
    assert crystal.requests[0].messages[-1] == Message("user", "what is this?", images=(PNG,))
    assert images(crystal.requests[1]) == ["chart.png"]


@pytest.mark.parametrize("image", [PNG, LARGE], ids=["small", "large"])
async def test_after_a_restart_it_is_shown_the_very_same_bytes(store: Store, image: Attachment) -> None:
    first, second = ScriptedCrystal([says("a chart")]), ScriptedCrystal([says("it rises")])
    async with Bench(store).serve(first):
        await Bench(store).response(await Bench(store).ask("what is this?", attachments=(image,)))
    async with Bench(store).serve(second):
        await Bench(store).talk("and?")
    assert second.requests[0].messages[0] == first.requests[0].messages[0]
    assert second.requests[0].messages[0].images[0].body == image.body


async def test_an_episode_that_was_cut_off_goes_on_with_its_images() -> None:
    bench = Bench()
    hanging = asyncio.Event()

    class Hanging:
        async def invoke(self, request: CrystalRequest, on_text: object = None) -> CrystalResponse:
            hanging.set()
            await asyncio.Event().wait()
            raise AssertionError

    async with bench.serve(Hanging()):
        prompt = await bench.ask("what is this?", attachments=(PNG,))
        await hanging.wait()
    crystal = ScriptedCrystal([says("a chart")])
    async with bench.serve(crystal):
        await bench.response(prompt)
    assert images(crystal.requests[0]) == ["chart.png"]


async def test_a_fork_is_shown_the_images_of_its_path() -> None:
    bench, crystal = Bench(), ScriptedCrystal([says("a chart"), says("it falls")])
    async with bench.serve(crystal):
        await bench.response(await bench.ask("what is this?", attachments=(PNG,)))
        await fork(await bench.open(), "s", -1, "other")
        await bench.talk("and?", "other")
    assert images(crystal.requests[1]) == ["chart.png"]


async def test_in_folded_turns_an_image_is_named_and_shown_no_more() -> None:
    bench, crystal = Bench(), ScriptedCrystal([says(f"{n}") for n in range(4)])
    chosen = msgspec.structs.replace(options(), folding=Folding(trigger_after_turns=2, keep_turns=1))
    async with bench.serve(crystal, chosen):
        await bench.response(await bench.ask("what is this?", attachments=(PNG,)))
        for n in range(3):
            await bench.talk(f"and {n}?")
    assert images(crystal.requests[1]) == ["chart.png"]
    assert images(crystal.requests[-1]) == []
    assert Message("user", "what is this?\n\n[no longer shown: chart.png]") in crystal.requests[-1].messages


def test_an_image_counts_where_tokens_are_reserved() -> None:
    bare, seen = Message("user", "x"), Message("user", "x", images=(PNG, PNG))
    assert estimate_tokens([seen]) - estimate_tokens([bare]) == 2 * IMAGE_TOKENS


async def test_an_image_that_the_budget_does_not_reach_for_is_not_asked_about() -> None:
    bench, crystal = Bench(), ScriptedCrystal([says("never")])
    cantrip = Cantrip(crystal, Call(), circle(["done"], [Ward(max_turns=3), Ward(max_tokens=IMAGE_TOKENS + 500)]))
    async with bench.serve(crystal, cantrip=cantrip):
        response = await bench.response(await bench.ask("what is this?", attachments=(PNG,)))
    assert (response.ending, response.ward) == ("truncated", "max_tokens")
    assert crystal.requests == []


async def test_the_loom_refers_to_an_image() -> None:
    bench, crystal = Bench(), ScriptedCrystal([says("a chart")])
    async with bench.serve(crystal):
        prompt = await bench.ask("what is this?", attachments=(PNG,))
        await bench.response(prompt)
    loom = await read_loom(await bench.open(), "s")
    (shown,) = loom.turns[0].images
    assert (shown.name, shown.media_type, shown.size) == ("chart.png", "image/png", len(PNG.body))
    assert (shown.sha256, shown.prompt) == (hashlib.sha256(PNG.body).hexdigest(), prompt.id)
    (line,) = export_loom(loom)
    assert len(line) < 2_000
    assert import_loom([line]).turns[0].images == (shown,)


async def answering(bench: Bench, *files: Attachment) -> None:
    """Whoever serves `echo` gives files with each result; twice, as an impatient sender might."""
    journal = await bench.open()
    async for record in journal.tail(kinds=["AgentToolCall"]):
        assert isinstance(record.entry, AgentToolCall)
        call = record.entry.correlation_id
        for number in range(2):
            result = AgentToolResult(correlation_id=call, result="attached", attachments=files)
            id = derive_id(call, number)
            await journal.append(result, session=record.session, id=id, cause=record, correlation_id=call)


@pytest.mark.parametrize("ends", [says("Here."), finishes("Here.")], ids=["text", "done"])
async def test_files_of_results_go_with_the_answer_of_their_episode(ends: CrystalResponse) -> None:
    bench = Bench()
    crystal = ScriptedCrystal([calls(("echo", {"text": "a"})), ends, says("Nothing more.")])
    serving = asyncio.create_task(answering(bench, REPORT, PNG))
    async with bench.serve(crystal, routed=False):
        first = await bench.talk("send it")
        second = await bench.talk("thanks")
    serving.cancel()
    assert (first.text, first.attachments) == ("Here.", (REPORT, PNG))
    assert second.attachments == ()
    assert images(crystal.requests[-1]) == [], "what is sent is not shown to the crystal"


async def test_files_that_came_before_a_restart_go_with_the_answer() -> None:
    bench, hanging = Bench(), asyncio.Event()

    async def hang(request: CrystalRequest) -> CrystalResponse:
        hanging.set()
        await asyncio.Event().wait()
        raise AssertionError

    serving = asyncio.create_task(answering(bench, REPORT))
    async with bench.serve(ScriptedCrystal([calls(("echo", {"text": "a"})), hang]), routed=False):
        prompt = await bench.ask("send it")
        await hanging.wait()
    serving.cancel()
    async with bench.serve(ScriptedCrystal([says("Here.")]), routed=False):
        assert (await bench.response(prompt)).attachments == (REPORT,)


async def test_files_of_a_call_that_was_given_up_stay_away() -> None:
    bench = Bench()
    crystal = ScriptedCrystal([calls(("echo", {"text": "a"})), says("It took too long."), says("Still nothing.")])
    journal = await bench.open()
    async with bench.serve(crystal, options(tool_timeout_s=5), routed=False):
        prompt = await bench.ask("send it")
        call = await bench.wait("AgentToolCall")
        await bench.clock.until_pending()
        bench.clock.advance(6)
        assert (await bench.response(prompt)).attachments == ()
        assert isinstance(call.entry, AgentToolCall)
        late = AgentToolResult(correlation_id=call.entry.correlation_id, result="late", attachments=(REPORT,))
        await journal.append(late, session="s", cause=call, correlation_id=call.entry.correlation_id)
        assert (await bench.talk("and?")).attachments == ()


async def test_a_fork_or_an_import_sends_no_file_again() -> None:
    bench = Bench()
    crystal = ScriptedCrystal([calls(("echo", {"text": "a"})), says("Here."), says("Go on.")])
    serving = asyncio.create_task(answering(bench, REPORT))
    async with bench.serve(crystal, routed=False):
        await bench.talk("send it")
        await fork(await bench.open(), "s", -1, "other")
        assert (await bench.talk("and?", "other")).attachments == ()
    serving.cancel()


class Sender:
    """Stateless: it sends a file once, and says what it was shown."""

    async def invoke(self, request: CrystalRequest, on_text: object = None) -> CrystalResponse:
        assert images(request) == ["chart.png"]
        return says("Here.") if request.messages[-1].role == "tool" else calls(("echo", {"text": "a"}))


async def live(bench: Bench, at: int = 0, when: str = "") -> int:
    """One process: it serves until the response, or until it is killed at a write. Gives how often it wrote."""
    journal = await bench.open()
    log = DyingLog(journal.log, at, when)
    dying = Journal(log, journal.registry, clock=bench.clock.now)  # type: ignore[arg-type]
    prompt = await bench.ask("send it", attachments=(PNG,))
    service = await bench.service(Sender(), journal=dying)
    tasks = [
        asyncio.create_task(service.run(lambda: None)),
        asyncio.create_task(bench.response(prompt)),
    ]
    routing = asyncio.create_task(answering(bench, REPORT))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (*tasks, routing):
            task.cancel()
        await asyncio.wait([*tasks, routing])
    return log.writes


async def test_killed_at_every_write_it_sends_the_same_files_once() -> None:
    undisturbed = Bench()
    writes = await live(undisturbed)
    for when in ("before", "after"):
        for at in range(1, writes + 1):
            bench = Bench()
            await live(bench, at, when)
            await live(bench)
            assert await bench.outcome() == await undisturbed.outcome()
            (response,) = await bench.records("AgentResponse")
            assert isinstance(response.entry, AgentResponse)
            assert response.entry.attachments == (REPORT,)
