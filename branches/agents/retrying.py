"""Retries of the crystal: journaled as attempts, never as turns, and never shown to the entity (PROD-2, D-006)."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from branches.agents.crystal import CrystalError
from policies import Retry

UNREACHABLE: Final = "unreachable"
"""The code of a `CrystalError` that says: nobody was reached, or the connection broke before the answer was whole."""


class Retrying(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """When a failed request to the crystal is made again (7.3 of the specification).

    What the provider asks for with `retry-after` is waited for, where it is more than the backoff comes to.
    """

    max_retries: Annotated[Annotated[int, Meta(ge=0)], Meta(description="attempts after the first one; 0 for none")] = 5
    retryable_status_codes: Annotated[
        tuple[int, ...], Meta(description="the provider's HTTP status codes that may pass")
    ] = (429, 500, 502, 503, 504)
    base_delay_s: Annotated[Annotated[float, Meta(gt=0)], Meta(description="seconds before the first retry")] = 1.0
    max_delay_s: Annotated[
        Annotated[float, Meta(gt=0)],
        Meta(description="seconds that a retry waits at most, unless the provider asks for more"),
    ] = 60.0

    def allows(self, error: CrystalError, attempt: int) -> bool:
        """Whether this failure of an attempt, counted from 1, is tried again."""
        passing = error.code == UNREACHABLE if error.status is None else error.status in self.retryable_status_codes
        return passing and attempt <= self.max_retries

    def policy(self) -> Retry:
        """The same for the engine."""
        return Retry(
            on=(MayPass,),
            attempts=self.max_retries + 1,
            wait_initial_s=self.base_delay_s,
            wait_max_s=self.max_delay_s,
            wait_jitter_s=self.base_delay_s,
        )


class MayPass(Exception):
    """A failure of the crystal that may pass."""

    def __init__(self, error: CrystalError) -> None:
        super().__init__(str(error))
        self.code, self.retry_after_s = error.code, error.retry_after_s
