"""Which crystal answers where the configuration says `auto`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from branches.agents.permission import permitted
from branches.catalogue import Catalogue, LeafInfo, LeafKind

REHEARSAL = "rehearsal"
LOCAL = "local"
FindEndpoint = Callable[[Mapping[str, str]], Awaitable[str | None]]


class Choice(msgspec.Struct, frozen=True):
    """A crystal with its options, and what a person should know about the choice."""

    leaf: LeafInfo
    options: msgspec.Struct | None = None
    notice: str | None = None


async def choose_crystal(
    catalogue: Catalogue, environ: Mapping[str, str], find_endpoint: FindEndpoint | None = None
) -> Choice:
    """The first crystal leaf whose keys are all set; else a local endpoint that answers; else the rehearsal crystal.

    The order is that of the catalogue. Nobody is looked for where requests to models are forbidden.
    """
    leaves = catalogue.of(LeafKind.CRYSTAL)
    for leaf in leaves.values():
        if leaf.secrets and all(environ.get(secret) for secret in leaf.secrets):
            return Choice(leaf, None if leaf.options is None else leaf.options())
    local = leaves.get(LOCAL)
    if local is not None and local.options is not None and permitted():
        url = await (find_endpoint or _find_endpoint)(environ)
        if url is not None:
            notice = f"no provider's key is set: the model at {url} answers (`crystal: rehearsal` asks no model)"
            return Choice(local, local.options(base_url=url), notice)
    return Choice(leaves[REHEARSAL])


async def _find_endpoint(environ: Mapping[str, str]) -> str | None:
    from leaves.crystals.local import find_endpoint

    return await find_endpoint(environ)
