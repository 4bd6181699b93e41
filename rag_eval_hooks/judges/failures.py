"""Classifies exceptions of model clients, such as timeouts, rate limits and rejections."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rag_eval_hooks.calls import CallOutcome
from rag_eval_hooks.errors import BudgetError, JudgeError, JudgeTimeout, JudgeUnavailable
from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.incidents import Incidents, in_words, is_ours, place_in_application
from rag_eval_hooks.prompts.prompt import ReplyError
from rag_eval_hooks.score import Cause, NotScored

_NO_CREDIT: Final = "insufficient_quota"
_ADVICE: Final[dict[object, str]] = {
    401: (
        "the endpoint rejected the API key; set judge_api_key (RAG_EVAL_JUDGE_API_KEY), or the "
        "key of the model object that you passed"
    ),
    403: "the API key has no access to the model; check the key and the model",
    404: "the model or path does not exist; check the model and judge_base_url",
    429: "the account reached its rate limit or quota; lower judge_concurrency or sample_rate",
    _NO_CREDIT: "the account's quota is used up; check its billing",
}
_CAUSES: Final = (
    (BudgetError, Cause.OVER_BUDGET),
    (JudgeUnavailable, Cause.JUDGE_UNAVAILABLE),
    (JudgeTimeout, Cause.TIMEOUT),
    (Exception, Cause.JUDGE_FAILED),
)
_TIME_OUT: Final = ("Timeout", "TimeoutError", "TimeoutException")
_STATUS: Final = ("status_code", "status", "code", "http_status", "HTTPStatusCode")
_NO_ACCESS: Final = (401, 402, 403)
_ABOUT_THE_REQUEST: Final = (JudgeError, TypeError, ValueError, AttributeError, ImportError)


class DescribedError(Exception):
    pass


class RequestRefusedError(JudgeError):
    def __init__(self, line: str, status: int | None, complaint: str) -> None:
        super().__init__(line)
        self.status = status
        self.complaint = complaint


def absence_of(error: Exception) -> NotScored:
    cause = next(cause for kind, cause in _CAUSES if isinstance(error, kind))
    is_safe = isinstance(error, JudgeError) and is_ours(error)
    return NotScored(cause, str(error) if is_safe else in_words("the judge", error))


def report_failure(
    incidents: Incidents, source: Any, kinds: frozenset[Finding], findings: Findings
) -> None:
    outcomes = [getattr(findings, kind) for kind in sorted(kinds)]
    failed = [one for one in outcomes if isinstance(one, NotScored) and one.cause.is_failure]
    if failed:
        host = getattr(source, "host", None)
        where = f" at {host}" if host else ""
        detail = f"{failed[0].cause.value}: {failed[0].detail}"
        incidents.count(f"judge {source.name}{where} failed", detail=detail)


def outcome_of(error: BaseException) -> CallOutcome | None:
    if isinstance(error, BudgetError | JudgeUnavailable | NotImplementedError):
        return None  # no request was sent
    if isinstance(error, ReplyError):
        return CallOutcome.OK
    if not isinstance(error, Exception):
        return CallOutcome.CANCELLED
    status = status_of(error)
    if status == 408 or is_time_out(error):
        return CallOutcome.TIMEOUT
    if status == 429 and getattr(error, "code", None) != _NO_CREDIT:
        return CallOutcome.RATE_LIMITED
    if status is None or status == 429 or status >= 500 or status in _NO_ACCESS:
        return CallOutcome.ERROR
    return CallOutcome.REFUSED


def answers(error: BaseException) -> bool | None:
    """Return whether a call's error shows that the endpoint works. None means unknown."""
    outcome = outcome_of(error)
    if outcome is CallOutcome.ERROR and isinstance(error, _ABOUT_THE_REQUEST):
        return None if status_of(error) is None else False
    is_known = outcome not in (None, CallOutcome.CANCELLED)
    return outcome not in (CallOutcome.ERROR, CallOutcome.TIMEOUT) if is_known else None


def status_of(error: BaseException) -> int | None:
    values = (_value(holder, name) for holder in _holders(error) for name in _STATUS)
    return next((one for one in values if isinstance(one, int) and 400 <= one < 600), None)


def is_time_out(error: BaseException) -> bool:
    return any(kind.__name__.endswith(_TIME_OUT) for kind in type(error).__mro__)


def describe(error: BaseException) -> str:
    # The message of a client's exception may quote an API key, so we do not repeat the message.
    if isinstance(error, DescribedError):
        return str(error)
    status, code = status_of(error), getattr(error, "code", None)
    if status is None:
        # Show the line of the application's judge function. A line inside a client does not help.
        place = place_in_application(error)
        is_own = place and "-packages" not in place
        return f"{type(error).__name__} at {place}" if is_own else type(error).__name__
    plain = isinstance(code, str) and re.fullmatch(r"[a-z_]{1,40}", code)
    advice = _ADVICE[code] if code == _NO_CREDIT else _ADVICE.get(status)
    return ", ".join(filter(None, (f"HTTP {status}", code if plain else None, advice)))


def _holders(error: BaseException) -> Iterator[object]:
    for one in (error, error.__cause__):
        response = getattr(one, "response", None)
        yield from (one, response, _value(response, "ResponseMetadata"))


def _value(holder: object, name: str) -> object:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
