"""What `coven.yaml` holds: as it is written (`CovenFile`), and as the host uses it (`Config`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from branches.catalogue import LeafInfo
from branches.manifest import Manifest
from branches.secret import Secret
from branches.spellcasting import Spell

if TYPE_CHECKING:
    from covenants.transform import Route

EMBEDDED = "embedded"
_SCHEMES = ("nats://", "tls://", "ws://", "wss://")
Durability = Literal["power", "process"]
Expression = str | int | float | bool | None


class NatsOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the journals live, and how to sign in there."""

    url: Annotated[
        Secret,
        Meta(description="`embedded`, or the address of a server: nats://host:4222, several separated by commas"),
    ]
    token: Annotated[Secret | None, Meta(description="sign in by token: `${NAME}` of an environment variable")] = None
    user: Annotated[str | None, Meta(description="sign in by name and password")] = None
    password: Annotated[Secret | None, Meta(description="the password: `${NAME}` of an environment variable")] = None
    credentials: Annotated[str | None, Meta(description="sign in by this credentials file (`.creds`)")] = None
    replicas: Annotated[int, Meta(ge=1, le=5, description="how many servers of a cluster keep each journal")] = 1

    @property
    def embedded(self) -> bool:
        """Whether Coven starts the server itself."""
        return self.url.template == EMBEDDED


class ApprovalOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who is asked before a route writes anything."""

    chat: Annotated[str | None, Meta(description="the chat instance that is asked; needed where there are several")] = (
        None
    )
    conversation: Annotated[
        Annotated[str, Meta(min_length=1, max_length=200)] | None,
        Meta(description="the conversation there that is asked, e.g. `discord:1234`; without it, the record's own"),
    ] = None
    approvers: Annotated[
        tuple[str, ...], Meta(description="the names of those who may answer; none means anybody there")
    ] = ()


class RouteOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A route in its long form."""

    route: Annotated[str, Meta(description="`Source -> Target`, or `Source, … -> nowhere`")]
    name: Annotated[
        str | None, Meta(description="the identity of the route, where source and target shall be free to change")
    ] = None
    fault: Annotated[
        str | None,
        Meta(description="the kind that goes home when the target cannot be made of the source, or is not approved"),
    ] = None
    map: Annotated[
        dict[str, Expression], Meta(description="fields of the target, each with a CEL expression over the source")
    ] = {}
    when: Annotated[
        str | bool | None, Meta(description="a CEL condition: only records for which it is true are routed")
    ] = None
    via: Annotated[str | None, Meta(description="`file.py:function`, a pure function that makes the target")] = None
    max_hops: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | None,
        Meta(description="declares a cycle: how often one exchange may pass"),
    ] = None
    approve: Annotated[
        bool | ApprovalOptions,
        Meta(description="a person must say yes to what the route makes: `true`, or a mapping that says who is asked"),
    ] = False
    start: Annotated[
        Literal["beginning", "end"] | None,
        Meta(description="where a route begins that is added later; without it, at the end"),
    ] = None


class CovenFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file as it is written. What `nats`, `branches` and `covenant` hold is looked at part by part."""

    coven: Annotated[str, Meta(description="the name of this coven; its journals carry it")]
    nats: Annotated[
        dict[str, Any] | str, Meta(description="`embedded`, the address of a server, or a mapping with how to sign in")
    ] = EMBEDDED
    durability: Annotated[
        Durability | None,
        Meta(description="`power` survives a power cut, `process` any kill; the embedded default is `power`"),
    ] = None
    branches: Annotated[dict[str, Any], Meta(description="the branch instances by name")]
    covenant: Annotated[list[Any], Meta(description="the routes between them: `Source -> Target`, or the long form")]


def names_server(url: str) -> bool:
    """Whether this may be the address of a server, or is `embedded`; what a variable holds is not known."""
    return url == EMBEDDED or url.startswith(("${", *_SCHEMES))


class Leaf(msgspec.Struct, frozen=True):
    """One leaf of a branch instance: `info.load()(options, …)` makes it. `options` is None where it has none."""

    info: LeafInfo
    options: msgspec.Struct | None


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    """One branch instance.

    `options` are a `ChatOptions`, an `AgentsOptions` or a struct of `spellcasting_options`. `leaves` are its leaves by
    name: the chat leaf, the crystal (none where it is `auto`), or the substrates. `crystals` are the other ones that
    an agents instance names.
    """

    name: str
    type: str
    manifest: Manifest
    options: msgspec.Struct
    leaves: dict[str, Leaf] = {}
    crystals: dict[str, Leaf] = {}

    @property
    def spells(self) -> dict[str, type[Spell]]:
        """The spells of its substrates by full name."""
        return {spell.name(): spell for leaf in self.leaves.values() for spell in leaf.info.spells}


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration without errors, ready to run. `base` is the folder of the file: paths in it are relative to it.

    `routes` hold those to `nowhere` too; their `target_instance` is None.
    """

    coven: str
    base: Path
    nats: NatsOptions
    durability: Durability | None
    branches: dict[str, Branch]
    routes: tuple[Route, ...]

    def of_type(self, type: str) -> tuple[Branch, ...]:
        """The instances of one branch type, in the order of the file."""
        return tuple(branch for branch in self.branches.values() if branch.type == type)
