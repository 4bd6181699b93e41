"""What an exception of any provider's client says about the call that it ended."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rag_eval_hooks.errors import BudgetError, JudgeError, JudgeTimeout, JudgeUnavailable
from rag_eval_hooks.score import Cause

__all__ = [
    "cause_of",
    "describe",
    "is_cut_off",
    "is_time_out",
    "is_transient",
    "response_header",
    "status_of",
]

_ADVICE = {
    401: "the key was not accepted; set api_key",
    403: "the key has no access; check the key and the model",
    404: "no such model or path; check the model and base_url",
    429: "rate limit or quota; lower the concurrency or the sample rate",
}
_NO_CREDIT = "insufficient_quota"
_TIME_OUT = ("Timeout", "TimeoutError", "TimeoutException")


def cause_of(error: JudgeError) -> Cause:
    """Why the findings of a call that ended so are absent."""
    if isinstance(error, BudgetError):
        return Cause.OVER_BUDGET
    if isinstance(error, JudgeUnavailable):
        return Cause.JUDGE_UNAVAILABLE
    return Cause.TIMEOUT if isinstance(error, JudgeTimeout) else Cause.JUDGE_FAILED


def status_of(error: BaseException) -> int | None:
    """The HTTP status that an exception carries, or None.

    Clients keep it as `status_code` or `code`, or on the response that they keep.
    """
    holders = (error, getattr(error, "response", None))
    names = ("status_code", "status", "code", "http_status")
    for holder in holders:
        for name in names:
            value = getattr(holder, name, None)
            if isinstance(value, int) and 400 <= value < 600:
                return value
    return None


def response_header(error: BaseException, name: str) -> str | None:
    """A header of the response that an exception keeps, or None."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    value = headers.get(name) if isinstance(headers, Mapping) else None
    return value if isinstance(value, str) else None


def is_time_out(error: BaseException) -> bool:
    """Whether a call ended without a reply in time, whichever library's word it is."""
    return any(kind.__name__.endswith(_TIME_OUT) for kind in type(error).__mro__)


def is_cut_off(error: BaseException) -> bool:
    """Whether a client raises for a reply that ended at the token limit, or at a filter."""
    return type(error).__name__.endswith("FinishReasonError")


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed later: 429, 5xx and time-outs.

    A refused connection, a bad request, a wrong key and an exhausted quota stay as they are.
    """
    status = status_of(error)
    if status is None:
        return is_time_out(error)
    no_credit = getattr(error, "code", None) == _NO_CREDIT
    return status >= 500 or status == 408 or (status == 429 and not no_credit)


def describe(error: BaseException) -> str:
    """An exception as one line without content: status, code and what to set, else its type.

    Its own text may repeat a part of the request, or a key: it is not used.
    """
    status, code = status_of(error), getattr(error, "code", None)
    if status is None:
        return type(error).__name__
    plain = isinstance(code, str) and re.fullmatch(r"[a-z_]{1,40}", code)
    return ", ".join(filter(None, (f"HTTP {status}", code if plain else None, _ADVICE.get(status))))
