"""How much a reading asks the server for at a time, and when.

Where the reader knows all that comes, because it wrote it, sending each message back at once is a third of the work
that an append is to the server, and in the way of the next one. Such a reading asks for its messages in bunches.
"""

from __future__ import annotations

from collections import deque
from typing import Final

PAUSE_S: Final = 0.02
"""How long a reading that is alone lets messages gather, in seconds."""
ALONE: Final = 64
"""How many of the reader's own messages in a row make a reading alone."""
_MANY: Final = 1000


class Pace:
    """Counts what came and what is still to come.

    A reading is alone when it has met nobody else's message for a while. Then one request for one message waits while
    nothing comes; when that message has come, the reading pauses and asks for all that the reader has written
    meanwhile, and one more. So what others write into the quiet is heard of at once, and what they write between the
    reader's own after `PAUSE_S` at the latest; from then on at once again.
    """

    def __init__(self, after: int) -> None:
        self.position = after
        """That of the last message that came."""
        self.pending = self.under_way = 0
        """How many the server had behind it, and how many are asked for."""
        self._known = 0
        self._strangers: deque[int] = deque((after,), ALONE)

    def __repr__(self) -> str:
        return f"<Pace at {self.position}, {self.under_way} under way{', alone' if self.is_alone else ''}>"

    @property
    def is_alone(self) -> bool:
        """Whether the last 64 messages were all the reader's own."""
        return not self._strangers or self.position - self._strangers[-1] >= ALONE

    def begin(self, pending: int) -> None:
        """The server reads on behind the last message, where so many wait; nothing is asked for yet."""
        self.pending, self.under_way = pending, 0

    def ended(self, unsent: int) -> None:
        """A request is over, and the server has kept so many of what it asked for."""
        self.under_way -= unsent

    def came(self, position: int, pending: int) -> bool:
        """A message has come; gives whether the reader does not know it yet."""
        self.position, self.pending = position, pending
        self.under_way -= 1
        if position <= self._known:
            return False
        self._strangers.append(position)
        return True

    def knows(self, position: int) -> bool:
        """Whether the reader knows the message at this position already."""
        return position <= self._known

    def wrote(self, first: int, last: int, *, known: bool) -> None:
        """The messages at these positions are the reader's own; `known` says that it knows all up to there by now."""
        if known:
            self._known = last
        elif first <= self.position:  # they came before their acknowledgement
            for position in range(first, min(last, self.position) + 1):
                if position in self._strangers:
                    self._strangers.remove(position)

    def wanted(self) -> int:
        """How many messages to ask for now; 0 where enough are under way. They count as under way from here on."""
        if self.is_alone:
            wanted = 0 if self.under_way > 0 else max(self._known - self.position, 0) + 1
        else:
            many = _MANY if self.pending else ALONE
            wanted = many if self.under_way <= many // 2 else 0
        self.under_way += wanted
        return wanted
