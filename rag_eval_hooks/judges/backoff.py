"""When a failed call is tried again, and after how long."""

from __future__ import annotations

import time
from datetime import UTC
from email.utils import parsedate_to_datetime

import openai
from tenacity import RetryCallState, wait_random_exponential

__all__ = ["is_transient", "retry_after", "wait"]

LONGEST_WAIT = 60.0
"""Seconds. A server that asks for a longer pause gets this one."""
_NO_CREDIT = "insufficient_quota"
_backoff = wait_random_exponential(multiplier=0.5, min=0.1, max=20.0)


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed later: 429, 5xx and time-outs.

    A refused connection, a bad request, a wrong key and an exhausted quota stay as they are.
    """
    if isinstance(error, openai.APIStatusError):
        status = error.status_code
        return status >= 500 or status == 408 or (status == 429 and error.code != _NO_CREDIT)
    return isinstance(error, TimeoutError | openai.APITimeoutError)


def wait(state: RetryCallState) -> float:
    """Seconds until the next try: exponential with full jitter, and what the server asks for."""
    error = state.outcome.exception() if state.outcome else None
    header = None
    if isinstance(error, openai.APIStatusError):
        header = error.response.headers.get("retry-after")
    asked = retry_after(header, time.time())
    # The jitter also spreads the callers that a server told the same time.
    return min(asked, LONGEST_WAIT) + float(_backoff(state))


def retry_after(header: str | None, now: float) -> float:
    """Seconds that a `Retry-After` header asks for; 0 for none, a past date or nonsense.

    Args:
        header: Seconds, or an HTTP date.
        now: The present time in seconds since the epoch.
    """
    if header is None:
        return 0.0
    try:
        seconds = float(header)
    except ValueError:
        seconds = _seconds_until(header, now)
    return seconds if 0.0 < seconds < float("inf") else 0.0


def _seconds_until(date: str, now: float) -> float:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return 0.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp() - now
