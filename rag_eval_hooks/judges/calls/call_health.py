"""What the end of a call tells about the judge itself."""

from __future__ import annotations

import time
from enum import Enum, auto

from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.judges.calls.failures import (
    is_time_out,
    is_transient,
    response_header,
    status_of,
)
from rag_eval_hooks.judges.calls.retry_after import LONGEST_WAIT, retry_after

__all__ = ["Told", "asked_pause", "told_by"]

_OVERLOADED = (429, 503, 529)
_NO_ACCESS = (401, 402, 403)
_ABOUT_THE_REQUEST = (
    JudgeError,
    NotImplementedError,
    TypeError,
    ValueError,
    AttributeError,
    ImportError,
)


class Told(Enum):
    """What is known of the judge after a call."""

    REPLIED = auto()
    """It is there: it gave a reply, or refused this request."""
    BUSY = auto()
    """It is there and wants fewer calls."""
    SLOW = auto()
    """It did not reply in time."""
    DOWN = auto()
    """It cannot be reached, has a fault of its own, or lets us in no more."""
    NOTHING = auto()
    """The call was cancelled, or failed on our side."""


def told_by(error: BaseException) -> Told:
    """What an exception that ended a call tells about the judge."""
    if not isinstance(error, Exception):
        return Told.NOTHING
    status = status_of(error)
    if status is not None:
        return _by_status(status, is_transient(error))
    if is_time_out(error):
        return Told.SLOW
    return Told.NOTHING if isinstance(error, _ABOUT_THE_REQUEST) else Told.DOWN


def asked_pause(error: BaseException) -> float:
    """Seconds that a judge asks by Retry-After to be left alone, at most a minute; else 0."""
    if status_of(error) not in _OVERLOADED:
        return 0.0
    return min(retry_after(response_header(error, "retry-after"), time.time()), LONGEST_WAIT)


def _by_status(status: int, transient: bool) -> Told:
    if status == 429:
        # A quota that is used up is no matter of fewer calls.
        return Told.BUSY if transient else Told.DOWN
    if status == 408:
        return Told.SLOW
    return Told.DOWN if status >= 500 or status in _NO_ACCESS else Told.REPLIED
