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

    What the provider asks for with `retry-after` is waited for, where it is more than the backoff comes to. One that
    asks for more than `max_retry_after_s` has failed, since nobody would know why nothing happens.
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
    max_retry_after_s: Annotated[
        Annotated[float, Meta(ge=0)],
        Meta(description="seconds that a provider may ask to be left alone; one that asks for more has failed"),
    ] = 300.0

    def allows(self, error: CrystalError, attempt: int) -> bool:
        """Whether this failure of an attempt, counted from 1, is tried again."""
        return self._passes(error) and not self._is_long(error) and attempt <= self.max_retries

    def told(self, error: CrystalError) -> str:
        """What the failure was, and that its provider asks for more time than there is, if it does."""
        if not self._passes(error) or not self._is_long(error):
            return str(error)
        asked = f"it asks to be left alone for {error.retry_after_s:,.0f} s, more than the {self.max_retry_after_s:g} s"
        return f"{error} ({asked} that `retry: max_retry_after_s` allows)"

    def _passes(self, error: CrystalError) -> bool:
        return error.code == UNREACHABLE if error.status is None else error.status in self.retryable_status_codes

    def _is_long(self, error: CrystalError) -> bool:
        return error.retry_after_s is not None and error.retry_after_s > self.max_retry_after_s

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
