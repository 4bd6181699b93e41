"""The HTTP client under the OpenAI client: aiohttp where it is installed, for its low cost."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import openai

try:
    import aiohttp
except ImportError:
    aiohttp = None  # type: ignore[assignment]

__all__ = ["honest_connection_errors", "lean_http_client"]


def lean_http_client() -> Any:
    """An asynchronous HTTP client for `openai.AsyncOpenAI`, or None for its own default.

    Over aiohttp a call costs a third of the CPU of the default transport. It comes with
    `openai[aiohttp]`; older clients of OpenAI do not have it.
    """
    make = getattr(openai, "DefaultAioHttpClient", None)
    return None if make is None or aiohttp is None else make()


@contextlib.contextmanager
def honest_connection_errors() -> Iterator[None]:
    """Raises connection errors as such: over aiohttp the client calls most of them time-outs.

    A time-out is tried again, a refused or broken connection is not.

    Raises:
        openai.APIConnectionError: The connection could not be made, or broke.
    """
    try:
        yield
    except openai.APITimeoutError as error:
        if _is_broken_connection(error):
            raise openai.APIConnectionError(request=error.request) from error
        raise


def _is_broken_connection(error: BaseException) -> bool:
    cause = error.__cause__
    while cause is not None:
        if aiohttp is not None and isinstance(cause, aiohttp.ClientError):
            return not isinstance(cause, TimeoutError)
        cause = cause.__cause__
    return False
