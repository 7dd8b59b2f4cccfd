"""The doctor's round: everything is looked at, and what fails does not keep the rest from being looked at."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from journals._doctor._durability import of_embedded, of_external
from journals._doctor._finding import Finding, problem, warning
from journals._doctor._folder import check_folder
from journals._doctor._probe import Probe
from journals._doctor._scratch import Latencies, Scratch
from journals._doctor._server import check_jetstream, check_streams, check_version, server_id
from journals._doctor._surroundings import check_landlock, check_python, check_secrets
from journals._errors import StoreRefused, StoreUnavailable
from journals._server._address import ServerAddress, find_server
from journals._urls import without_credentials


async def examine(
    url: str | None = None,
    *,
    token: str | None = None,
    credentials: str | None = None,
    folder: Path | None = None,
    coven: str = "coven",
    secrets: Sequence[str] = (),
    environment: Mapping[str, str] = os.environ,
) -> list[Finding]:
    """Look at everything that Coven stands on; takes a second or two, and leaves nothing behind.

    Without `url` the embedded server of `folder` is examined, with the address and token found there. `coven` is
    the name whose streams are looked at, `secrets` the environment variables to look for (by name alone). Never
    raises for what it finds.
    """
    findings = [*check_python(), *check_landlock(), *check_secrets(secrets, environment)]
    address: ServerAddress | None = None
    if folder is not None:
        findings += check_folder(folder)
        try:
            address = await find_server(folder)
        except StoreRefused as error:
            return [*findings, problem("files", str(error), "run this as that user")]
    if url is None:
        if address is None:
            where = "" if folder is None else f" for {folder}"
            return [*findings, warning("server", f"no embedded server runs{where}", "start it: `coven run`")]
        url = address.url
    embedded = address if address is not None and address.url == url else None
    if embedded is not None:
        token = token or embedded.token
    findings += await _examine_server(url, token, credentials, coven, embedded)
    return findings


async def _examine_server(
    url: str, token: str | None, credentials: str | None, coven: str, embedded: ServerAddress | None
) -> list[Finding]:
    try:
        probe = await Probe.open(url, token=token, credentials=credentials)
    except StoreUnavailable as error:
        return [problem("server", str(error), "start the server, or correct `nats:` in coven.yaml")]
    except StoreRefused as error:
        return [problem("server", str(error), "correct the token or the credentials")]
    async with probe:
        return await _ask_around(probe, url, coven, embedded)


async def _ask_around(probe: Probe, url: str, coven: str, embedded: ServerAddress | None) -> list[Finding]:
    version = probe.client.connected_server_version
    shown = f"{version.major}.{version.minor}.{version.patch}"
    findings = [check_version(without_credentials(url), shown)]
    if findings[0].level == "problem":
        return findings
    jetstream = await check_jetstream(probe)
    findings += jetstream
    latencies: Latencies | None = None
    if not any(finding.level == "problem" for finding in jetstream):
        scratch = Scratch(probe, coven)
        created = await scratch.create()
        findings += created
        if not any(finding.level == "problem" for finding in created):
            findings += await scratch.try_everything()
            latencies = None if embedded else await scratch.measure()
            findings += await scratch.remove()
        if embedded is not None:
            findings.append(of_embedded(embedded.durability))
        else:
            findings.append(await of_external(probe, url, await server_id(probe), latencies))
        findings += await check_streams(probe, coven)
    return findings
