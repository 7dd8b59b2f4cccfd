"""The server: how new it is, what it grants this account, and whether the streams are set as they must be."""

from __future__ import annotations

from typing import Any

from journals._doctor._finding import Finding, ok, problem, warning
from journals._doctor._probe import NoAnswer, Probe
from journals._doctor._scratch import ALLOW, SCRATCH
from journals._errors import StoreMismatch
from journals._jetstream._settings import check_settings, journal_settings
from journals._server._info import MINIMUM_VERSION, RECOMMENDED_VERSION, parse_version

_NEARLY = 0.8
_UNLIMITED = -1
_PAGE = 256


def check_version(url: str, version: str) -> Finding:
    """Whether the server is new enough, and as new as recommended."""
    if parse_version(version) >= RECOMMENDED_VERSION:
        return ok("server", f"nats-server {version} at {url}")
    wanted = ".".join(map(str, RECOMMENDED_VERSION))
    if parse_version(version) < MINIMUM_VERSION:
        return problem("server", f"nats-server {version} at {url} is too old", f"upgrade it to {wanted}")
    return warning(
        "server", f"nats-server {version} at {url}", f"it works; {wanted} is recommended, upgrade when you can"
    )


async def server_id(probe: Probe) -> str | None:
    """Which server it is, in its own words; None where it does not tell."""
    try:
        answer = await probe.ask_json("$SYS.REQ.USER.INFO")
    except NoAnswer:
        return None
    return answer.get("server", {}).get("id")


async def check_jetstream(probe: Probe) -> list[Finding]:
    """Whether this account has JetStream, and how much of its limits is used. A `problem` means that it has none."""
    try:
        answer = await probe.api("INFO")
    except NoAnswer as error:
        return [
            problem(
                "jetstream",
                f"JetStream does not answer: {error}",
                f"start the server with `-js` or a `jetstream` block and enable it for this account; {ALLOW}",
            )
        ]
    if failed := answer.get("error"):
        return [
            problem(
                "jetstream",
                f"JetStream refuses this account: {failed.get('description')}",
                "enable JetStream for this account in the server's configuration",
            )
        ]
    return [ok("jetstream", f"JetStream is enabled, {answer.get('streams', 0)} streams"), *check_limits(answer)]


def check_limits(account: dict[str, Any]) -> list[Finding]:
    """How near the account is to what it may store, from the answer of `$JS.API.INFO`."""
    limits: dict[str, Any] = account.get("limits") or {}
    findings: list[Finding] = []
    for used, limit, what in (("storage", "max_storage", "bytes on disk"), ("streams", "max_streams", "streams")):
        allowed, taken = limits.get(limit, _UNLIMITED), account.get(used, 0)
        if allowed != _UNLIMITED and taken >= allowed * _NEARLY:
            findings.append(
                warning(
                    "limits",
                    f"{taken} of the {allowed} {what} that this account may have are used",
                    f"raise `{limit}` of the account before appends are refused",
                )
            )
    return findings or [ok("limits", f"{account.get('storage', 0) / 1e6:.1f} MB stored, within this account's limits")]


async def check_streams(probe: Probe, coven: str) -> list[Finding]:
    """Whether the streams of this coven are set as Coven needs them."""
    findings: list[Finding] = []
    try:
        configs = await _streams(probe, coven)
    except NoAnswer as error:
        return [problem("streams", f"the streams cannot be listed: {error}", ALLOW)]
    for config in configs:
        name, prefix = config["name"], f"{coven}-"
        if name.startswith(prefix + SCRATCH):
            continue
        if not name.startswith(prefix):
            findings.append(
                problem(
                    "streams",
                    f"stream {name!r} takes subjects of {coven!r} and is not Coven's",
                    f"remove `{coven}.…` from its subjects, or give this coven another name",
                )
            )
            continue
        settings = journal_settings(
            coven, name.removeprefix(prefix), replicas=config["num_replicas"], short_lived=config["discard"] == "old"
        )
        try:
            check_settings(settings, config)
        except StoreMismatch as error:
            findings.append(problem("streams", str(error), f"`nats stream edit {name}`"))
        else:
            findings.append(ok("streams", f"{name} is set as it must be"))
    return findings or [ok("streams", f"{coven!r} has no streams here yet")]


async def _streams(probe: Probe, coven: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        answer = await probe.api("STREAM.LIST", {"subject": f"{coven}.>", "offset": len(found)})
        if failed := answer.get("error"):
            raise NoAnswer(failed.get("description", "no reason given"))
        page: list[dict[str, Any]] = answer.get("streams") or []
        found += [stream["config"] for stream in page]
        if len(page) < _PAGE:
            return found
