"""One coven through one storm, and what was found wrong afterwards."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.soak.deployment import Running
from tests.chaos.soak.driver import Driver, last_words
from tests.chaos.soak.invariants import violations
from tests.chaos.soak.storm import storm


async def soaked(folder: Path, seed: int, *, blows: int, longest: float) -> Driver:
    """Let a storm pass over a coven. Raises `AssertionError`, with the seed and what was done, for what is wrong."""
    driver = Driver(folder, seed)
    await driver.open()
    wrong: list[str] = []
    try:
        await driver.carry_out(storm(seed, blows, driver.deployment.services, longest=longest))
        journals = await driver.settle()
        await journals.read()
        wrong += violations(journals, driver.world, driver.visitors, folder)
        if not wrong:
            journals = await driver.start_anew()
            await journals.read()
            wrong += [f"started anew: {each}" for each in violations(journals, driver.world, driver.visitors, folder)]
        wrong += [problem for problem in map(_unexplained(driver), driver.deployment.ended) if problem]
        wrong += await _complaints(driver)
        wrong += [f"did not stop: {running} {last_words(running)}" for running in await driver.deployment.stop()]
    finally:
        await driver.close()
    if wrong:
        raise AssertionError(
            "\n".join([f"seed {seed}, in {folder}, {driver.setting}:", *wrong, "what was done:", *driver.history])
        )
    return driver


def _unexplained(driver: Driver):
    def explained(running: Running) -> str | None:
        words = running.log.read_text(errors="replace")
        if "was taken over by another coven" in words and running.service in driver.rivals:
            return None
        if driver.server_was_away and ("was given up" in words or "NATS" in words):
            return None
        return f"{running} ended by itself: {last_words(running)}"

    return explained


async def _complaints(driver: Driver) -> list[str]:
    """What the commands find that an operator would ask."""
    commands = [("doctor",), ("journal", "list"), ("dead-letters", "list")]
    commands += [("journal", "read", name, "-o", "json") for name in ("chat", "agents", "spellcasting")]
    found: list[str] = []
    for command in commands:
        code, output, errors = await driver.deployment.command(*command)
        if code != 0 or "Traceback" in errors:
            found.append(f"coven {' '.join(command)} ended with {code}: {output[-500:]} {errors[-1000:]}")
    return found
