"""What tells that an answer which a pipe waits for will not come: nobody is there to look after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator
from contextlib import aclosing
from typing import Any

from branches.agents.approval import Answer
from branches.chat.entries import ChatAfferent, ChatAnswer, ChatEfferentDraft, ChatQuestion
from branches.manifest import Direction
from covenants import Config, Endpoint, Route, TransformFailed
from covenants.dead_letters import DeadLetter
from covenants.questions import asked_by, route_key
from journals import Journal, Record

Open = Callable[[str], Awaitable[Journal]]
Watch = Coroutine[Any, Any, None]


class Unanswerable(Exception):
    """A record of the conversation in a pipe went where no answer comes from."""

    @classmethod
    def dead(cls, reason: str) -> Unanswerable:
        """It became a dead letter."""
        return cls(
            f"a record of this conversation could not be routed, so its answer may never come: {reason}; "
            "`coven dead-letters list` shows it, and `coven dead-letters redrive --all` sends it again"
        )

    @classmethod
    def failed(cls, route: Route) -> Unanswerable:
        """A route made its fault of it, which does not lead back to whoever waits."""
        return cls(
            f"the route {route.name} could not carry a record of this conversation, so its answer will not come; "
            f"its fault went to {route.fault_instance}: `coven journal read {route.fault_instance}` shows it"
        )

    @classmethod
    def denied(cls, route: Route, by: str) -> Unanswerable:
        """Somebody who was asked elsewhere has not approved it."""
        said = f"{by} has not approved it" if by else "nobody could be asked"
        return cls(f"the route {route.name} needs an approval, and {said}, so the answer will not come")

    @classmethod
    def untaken(cls, said: Record[Any]) -> Unanswerable:
        """No route takes it: each has a condition that says no, or makes nothing of it."""
        return cls(
            f"no route takes what was said at {said.position} of {said.journal}, so it will not be answered: look at "
            f"`when:` and `via:` of the routes from {said.kind}"
        )


async def watch_letters(dead_letters: Journal, is_here: Callable[[str], bool], after: int) -> None:
    """Raises `Unanswerable` when a conversation that is here gets a dead letter."""
    async with aclosing(dead_letters.tail(after, kinds=[DeadLetter.kind()])) as letters:
        async for record in letters:
            if is_here(record.session):
                raise Unanswerable.dead(getattr(record.entry, "reason", record.kind))


class Lost:
    """Watches the routes through which a conversation's answer comes, and the people who are asked about them."""

    def __init__(self, config: Config, chats: Collection[str], is_here: Callable[[str], bool], open: Open) -> None:
        """`chats` are the instances that have a pipe, `is_here` says which sessions are theirs."""
        self._chats, self._is_here, self._open = chats, is_here, open
        self._faulty: list[tuple[Route, Endpoint]] = []
        self._asking: list[Route] = []
        self._taking = {chat: self._routes_from(config, chat) for chat in chats}
        for route in config.routes:
            if not self._carries_answers(route):
                continue
            if route.fault_kind is not None and not leads_to(config, route.fault_kind, chats):
                self._faulty.append((route, route.fault_kind))
            elif route.fault_kind is None and route.approval is not None and not self._asks_here(route):
                self._asking.append(route)

    def __repr__(self) -> str:
        return f"<Lost {', '.join(route.name for route in (*(each for each, _ in self._faulty), *self._asking))}>"

    async def watches(self) -> list[Watch]:
        """What to await beside the coven, from now on; each raises `Unanswerable` and never returns."""
        found: list[Watch] = []
        for route, fault in self._faulty:
            journal = await self._open(fault.instance)
            found.append(self._watch_faults(route, fault, journal, await journal.end()))
        for name, routes in self._taking.items():
            if routes and all(route.when is not None or route.via is not None for route in routes):
                chat = await self._open(name)
                found.append(self._watch_said(routes, chat, await chat.end()))
        for route in self._asking:
            assert route.approval is not None
            chat = await self._open(route.approval.chat)
            found.append(self._watch_answers(route, chat, await chat.end()))
        return found

    def _routes_from(self, config: Config, chat: str) -> list[Route]:
        return [
            route
            for route in config.routes
            if (route.source_instance, route.source_kind) == (chat, ChatAfferent.kind()) and route.targets
        ]

    def _carries_answers(self, route: Route) -> bool:
        """Whether nothing is answered where this route does not carry."""
        asks = route.source_instance in self._chats and route.source_kind == ChatAfferent.kind()
        drafts = (end.instance in self._chats and end.kind.name == ChatEfferentDraft.kind() for end in route.targets)
        return bool(route.targets) and (asks or any(drafts))

    def _asks_here(self, route: Route) -> bool:
        """Whether the pipe itself is asked, so that it knows of a no."""
        asks = route.approval
        if asks is None or asks.chat not in self._chats:
            return False
        return asks.conversation is None or self._is_here(asks.conversation)

    async def _watch_said(self, routes: list[Route], chat: Journal, after: int) -> None:
        async with aclosing(chat.tail(after, kinds=[ChatAfferent.kind()])) as said:
            async for record in said:
                is_said = not record.imported and self._is_here(record.session)
                if is_said and not any(takes(route, record) for route in routes):
                    raise Unanswerable.untaken(record)

    async def _watch_faults(self, route: Route, fault: Endpoint, journal: Journal, after: int) -> None:
        names = (route.name, f"{route.name}!")
        async with aclosing(journal.tail(after, kinds=[fault.kind.name])) as records:
            async for record in records:
                if record.route in names and self._is_here(record.session) and not await self._is_own_no(route, record):
                    raise Unanswerable.failed(route)

    async def _is_own_no(self, route: Route, fault: Record[Any]) -> bool:
        """Whether this fault came of what the pipe itself has answered: no failure, and it goes on."""
        if route.approval is None or not self._asks_here(route):
            return False
        chat = await self._open(route.approval.chat)
        session = route.approval.conversation or fault.session
        async with aclosing(chat.read(session=session, kinds=[ChatAnswer.kind()], reverse=True)) as answers:
            async for record in answers:
                if record.id == fault.causation_id and isinstance(record.entry, ChatAnswer):
                    return not Answer(record.entry.answer, record.entry.by).approves
        return False

    async def _watch_answers(self, route: Route, chat: Journal, after: int) -> None:
        source = await self._open(route.source_instance)
        async with aclosing(chat.tail(after, kinds=[ChatAnswer.kind()])) as answers:
            async for record in answers:
                entry = record.entry
                if not isinstance(entry, ChatAnswer) or Answer(entry.answer, entry.by).approves:
                    continue
                asked = asked_by(entry.correlation_id)
                if asked is None or asked.route != route_key(route):
                    continue
                about = await source.get(asked.position)
                if about is not None and self._is_here(about.session):
                    raise Unanswerable.denied(route, entry.by)


def takes(route: Route, record: Record[Any]) -> bool:
    """Whether something comes of this record; a failure is something, too."""
    try:
        return bool(route.apply(record))
    except TransformFailed:
        return True


def leads_to(config: Config, start: Endpoint, chats: Collection[str]) -> bool:
    """Whether something may be said or asked in one of these chats because of this kind. Says yes where it may be."""
    told = {(chat, kind.kind()) for chat in chats for kind in (ChatEfferentDraft, ChatQuestion)}
    reached, ends = set[tuple[str, str]](), [(start.instance, start.kind.name)]
    while ends:
        end = ends.pop()
        if end in told:
            return True
        if end not in reached:
            reached.add(end)
            ends.extend(_effects(config, *end))
    return False


def _effects(config: Config, instance: str, name: str) -> Iterator[tuple[str, str]]:
    for route in config.routes:
        if (route.source_instance, route.source_kind) == (instance, name):
            for end in (*route.targets, *([route.fault_kind] if route.fault_kind else [])):
                yield end.instance, end.kind.name
    branch = config.branches[instance]
    kind = branch.manifest.get(name)
    if kind is None or kind.direction is Direction.PRODUCES:
        return
    if branch.type == "chat":  # it goes to people, who say of themselves what they say
        made = tuple(answer.kind() for answer in kind.answers)
    else:
        made = tuple(each.name for each in branch.manifest.of(Direction.PRODUCES))
    yield from ((instance, each) for each in made)


async def all_of(watches: Collection[Watch]) -> None:
    """Await all of these at once, until one raises."""
    async with asyncio.TaskGroup() as tasks:
        for watch in watches:
            tasks.create_task(watch)
