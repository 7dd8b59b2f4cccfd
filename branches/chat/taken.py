"""What was recorded of the outside lately, for a leaf that looks at a start what it has missed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from branches.chat.entries import ChatAfferent
from journals import Record


class Taken:
    """The messages from outside that were recorded since some time, prompts and answers; `in` asks for one by its id.

    `conversations` are those that they were said in, `waiting` the prompts to which no answer was delivered, in order.
    """

    def __init__(
        self,
        conversations: Collection[str],
        ids: Collection[str],
        waiting: Sequence[Record[ChatAfferent]],
        id_of: Callable[[str], str],
    ) -> None:
        self.conversations, self.waiting, self._ids, self._id_of = conversations, waiting, ids, id_of

    def __repr__(self) -> str:
        return f"<Taken {len(self._ids)} messages in {len(self.conversations)} conversations>"

    def __contains__(self, message_id: str) -> bool:
        return self._id_of(message_id) in self._ids
