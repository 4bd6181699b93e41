"""When a failed call is tried again, and after how long."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)

from rag_eval_hooks.judges.calls.failures import is_transient, response_header
from rag_eval_hooks.judges.calls.retry_after import LONGEST_WAIT, retry_after

__all__ = ["LONGEST_WAIT", "retried", "retry_after"]

T = TypeVar("T")

_backoff = wait_random_exponential(multiplier=0.5, min=0.1, max=20.0)


async def retried(attempt: Callable[[], Coroutine[Any, Any, T]], retries: int) -> T:
    """The result of a call, tried again after a 429, a 5xx or a time-out.

    Args:
        attempt: Makes one try; an async function, not one that only returns an awaitable.
        retries: Further tries at most.

    Raises:
        BaseException: What the last try raised.
    """
    retrying = AsyncRetrying(
        retry=retry_if_exception(is_transient),
        wait=_wait,
        stop=stop_after_attempt(retries + 1),
        reraise=True,
    )
    return await retrying(attempt)


def _wait(state: RetryCallState) -> float:
    """Seconds until the next try: exponential with full jitter, and what the server asks for."""
    error = state.outcome.exception() if state.outcome else None
    header = None if error is None else response_header(error, "retry-after")
    asked = retry_after(header, time.time())
    # The jitter also spreads the callers that a server told the same time.
    return min(asked, LONGEST_WAIT) + float(_backoff(state))
