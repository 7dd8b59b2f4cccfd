"""Approvals of routes: somebody can be asked, and nobody waits in vain meanwhile."""

from __future__ import annotations

from typing import cast

import msgspec

from branches.agents.entries import AgentChunk, AgentResponse, AgentToolCall, AgentToolFault, AgentToolResult
from branches.agents.gates import ASK_PERSON, canonical
from branches.agents.options import AgentsOptions
from covenants.checks.circles import circle_gates
from covenants.checks.scope import Line, Scope
from covenants.document import Path
from covenants.model import ApprovalOptions, Branch
from covenants.problems import shown, suggest
from covenants.routing import Approval
from covenants.transform import Endpoint

_OF_A_QUESTION = ("chat", "conversation")
_WAITED_FOR = (AgentToolResult, AgentToolFault)


def read_approvals(scope: Scope) -> None:
    """Fill `scope.approvals` with who is asked by which line.

    The calls of an agent wait in the agent itself, which knows what they are: there an approval of the route is one of
    the gates that it carries, in the options of the circle.
    """
    for line in scope.lines:
        if line.options.approve is False or line.silent or line.source is None:
            continue
        options = line.options.approve if isinstance(line.options.approve, ApprovalOptions) else ApprovalOptions()
        path = (*line.path, "approve")
        if line.source.kind.entry is AgentToolCall:
            _approve_gates(scope, line, scope.branches[line.source.instance], options, path)
        elif _can_wait(scope, line, line.source, path):
            chat = _chat(scope, line.source, options, path)
            if chat is not None:
                scope.approvals[line.path] = Approval(chat, options.conversation, options.approvers)
                _check_not_streamed(scope, line, line.source, path)


def _can_wait(scope: Scope, line: Line, source: Endpoint, path: Path) -> bool:
    if source.kind.short_lived:
        message = f"`{source.kind.name}` is short-lived: it is gone before anybody has answered"
        hint = "take `approve` out here, and put it on the route of the final message"
        scope.document.add("E217", message, hint, at=path, key=True)
        return False
    for target in line.targets:
        if target.kind.entry in _WAITED_FOR:
            message = f"an agent waits for `{scope.written(target)}`, and not as long as a person may take"
            _refuse(scope, message, scope.branches[target.instance], path)
            return False
    return True


def _check_not_streamed(scope: Scope, line: Line, source: Endpoint, path: Path) -> None:
    """What is shown while it is being written has been seen before anybody is asked about it."""
    if source.kind.entry is not AgentResponse:
        return
    instances = {target.instance for target in line.targets}
    when = line.options.when
    for other in scope.lines:
        chunk = other.source
        if chunk is None or chunk.instance != source.instance or chunk.kind.entry is not AgentChunk:
            continue
        if None not in (when, other.options.when) and when != other.options.when:
            continue  # what goes the one way need not go the other
        for target in other.targets:
            if target.instance in instances:
                number = scope.document.place_of(other.path).line
                message = f"line {number} shows {target.instance} the same text while it is being written"
                hint = f"write `- {scope.written(chunk)} -> nowhere` there"
                scope.document.add("E223", message, hint, at=path, key=True)


def _chat(scope: Scope, source: Endpoint, options: ApprovalOptions, path: Path) -> str | None:
    """The chat that is asked: the one that is named, the source itself where it is one, or the only one."""
    chats = [branch.name for branch in scope.branches.values() if branch.type == "chat"]
    if options.chat is not None:
        if options.chat in chats or (options.chat in scope.file.branches and options.chat not in scope.branches):
            return options.chat  # what cannot be read of it is noted there
        message = f"no chat is called `{shown(options.chat)}`"
        scope.document.add("E207", message, suggest(options.chat, chats), at=(*path, "chat"))
        return None
    if source.instance in chats:
        return source.instance
    if len(chats) == 1:
        return chats[0]
    if chats:
        message = f"there are several chats, {', '.join(chats)}: which one is asked?"
        scope.document.add("E221", message, f"approve: {{chat: {chats[0]}}}", at=path, key=True)
    else:
        message = "this route waits for a person, and there is no chat in which one could be asked"
        scope.document.add("E218", message, "add `chat: …` under `branches:`", at=path, key=True)
    return None


def _approve_gates(scope: Scope, line: Line, branch: Branch, options: ApprovalOptions, path: Path) -> None:
    agents = cast("AgentsOptions", branch.options)
    circle = agents.circle
    if line.options.when is not None:
        message = "a call waits for its approval in the agent, which does not know the `when:` of this route"
        _refuse(scope, message, branch, path)
        return
    for key in _OF_A_QUESTION:
        if getattr(options, key) is not None:
            message = "the question whether a call may be made goes where `ApprovalAsked` is routed"
            hint = f"remove `{key}`, and route `ApprovalAsked -> ChatQuestion` to that chat"
            scope.document.add("E222", message, hint, at=(*path, key), key=True)
            return
    asks_otherwise = bool(circle.approve) or ASK_PERSON.name in map(canonical, circle.gates) or circle.approvers
    if options.approvers and set(options.approvers) != set(circle.approvers) and asks_otherwise:
        message = f"the circle of {branch.name} has other approvers, and they are the same for all that it asks"
        hint = f"write them once: `circle: {{approvers: [{', '.join(map(shown, options.approvers))}]}}`"
        scope.document.add("E222", message, hint, at=(*path, "approvers"), key=True)
        return
    gates = tuple(dict.fromkeys((*circle.approve, *_carried(scope, branch))))
    circle = msgspec.structs.replace(circle, approve=gates, approvers=circle.approvers or options.approvers)
    agents = msgspec.structs.replace(agents, circle=circle)
    scope.branches[branch.name] = msgspec.structs.replace(branch, options=agents)


def _refuse(scope: Scope, message: str, branch: Branch, path: Path) -> None:
    gates = ", ".join(_carried(scope, branch)) or "…"
    scope.document.add("E222", message, f"approve calls: `circle: {{approve: [{gates}]}}`", at=path, key=True)


def _carried(scope: Scope, branch: Branch) -> list[str]:
    """The gates of a circle whose calls are routed."""
    spells = scope.spells()
    return [gate for gate in circle_gates(branch) if gate in spells]
