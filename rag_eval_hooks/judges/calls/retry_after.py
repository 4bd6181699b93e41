"""How long a server asks to be left alone."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime

__all__ = ["LONGEST_WAIT", "retry_after"]

LONGEST_WAIT = 60.0
"""Seconds. A server that asks for a longer pause gets this one."""


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
