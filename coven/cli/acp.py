"""`coven acp`."""

from __future__ import annotations

from coven.cli._options import Agents, Crystal, MaybeFile, Medium, Nats


def acp(
    crystal: Crystal = None,
    medium: Medium = None,
    agents: Agents = None,
    file: MaybeFile = None,
    nats: Nats = None,
) -> None:
    """Be an agent of the Agent Client Protocol on standard input and output, for editors.

    An editor starts this and talks to it. Each session is a conversation in the journals, each prompt an episode; the
    gates work in the workspace of coven.yaml. Without a coven.yaml it reads the folder that it was started in, as
    `coven cast` does, and keeps nothing.

    A client that goes away cancels nothing: what was under way goes on at the next start.

    Example:

      coven acp --file /home/ada/hearth/coven.yaml

    As the settings of an editor have it:

      {"agent_servers": {"Coven": {"command": "coven", "args": ["acp", "--file", "/home/ada/hearth/coven.yaml"]}}}
    """
    from branches.catalogue import ExtraMissing
    from coven.recipe import Changes, find_recipe
    from coven.terminal import tell

    try:
        from coven.acp.server import serve
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "acp":
            raise
        raise ExtraMissing("acp", "agent-client-protocol") from None

    recipe = find_recipe(file, nats, Changes(agents, crystal, medium))
    for problem in recipe.warnings:
        tell(str(problem))
    serve(recipe)
