"""When an effect that failed is tried again."""

from __future__ import annotations

import hashlib

import msgspec


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """Which failures of an effect are tried again, how often, and after how long.

    Only exceptions of the types in `on` are: any other is a bug and fails the run. The first pause is `wait_initial_s`
    seconds, each further one `wait_base` times as long, at most `wait_max_s`; up to `wait_jitter_s` is added, drawn
    from the call's id. An exception with a `retry_after_s` is waited for at least so long. After `attempts` attempts
    the failure becomes the outcome, an error result.
    """

    on: tuple[type[Exception], ...]
    attempts: int = 5
    wait_initial_s: float = 0.1
    wait_max_s: float = 5.0
    wait_base: float = 2.0
    wait_jitter_s: float = 1.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts={self.attempts}: an effect is tried at least once")

    def pause(self, call_id: str, attempt: int, error: Exception | None = None) -> float:
        """Seconds between this attempt, counted from 1, and the next one."""
        digest = hashlib.blake2b(f"{call_id} pause {attempt}".encode(), digest_size=6).digest()
        jitter = self.wait_jitter_s * int.from_bytes(digest) / (1 << 48)
        doublings = min(attempt - 1, 64)  # beyond that every pause is the longest one
        asked: float | None = getattr(error, "retry_after_s", None)
        return max(asked or 0.0, min(self.wait_max_s, self.wait_initial_s * self.wait_base**doublings + jitter))
