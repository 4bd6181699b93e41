"""One OpenAI-compatible endpoint: its client, limits, retries and errors."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from rag_eval_hooks.errors import JudgeError, JudgeTimeout

try:
    import openai
    from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt
except ImportError as missing:
    raise ImportError(
        'OpenAI-compatible judges need an extra: pip install "rag-eval-hooks[openai]"'
    ) from missing

from rag_eval_hooks.judges.backoff import is_transient, wait
from rag_eval_hooks.judges.client_options import ClientOptions

__all__ = ["Endpoint", "RequestRefusedError"]

T = TypeVar("T")

_OPENAI = "https://api.openai.com/v1"
_NO_KEY = "none"
"""Endpoints without keys, such as a local vLLM, ignore it; the client insists on one."""
_ADVICE = {
    401: "the key was not accepted; set api_key",
    403: "the key has no access; check the key and the model",
    404: "no such model or path; check the model and base_url",
    429: "rate limit or quota; lower the concurrency or the sample rate",
}


@dataclass(frozen=True, slots=True)
class _Line:
    """What belongs to one event loop."""

    client: openai.AsyncOpenAI
    slots: asyncio.Semaphore


class RequestRefusedError(JudgeError):
    """Status 400, 404 or 422: the caller may know another way to ask.

    Attributes:
        status: The HTTP status.
        complaint: What the endpoint said, in lower case. It may repeat content: never log it.
    """

    def __init__(self, line: str, status: int, complaint: str) -> None:
        super().__init__(line)
        self.status = status
        self.complaint = complaint


class Endpoint:
    """Calls to one endpoint. The client is made inside the event loop that first uses it.

    Args:
        name: What errors call it, such as `openai:gpt-4o-mini`.
        options: How to reach it.
    """

    def __init__(self, name: str, options: ClientOptions) -> None:
        self.name = name
        self._options = options
        # Connections cannot move between loops: each has its own.
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"Endpoint({self.name!r}, {self._options!r})"

    async def call(self, request: Callable[[openai.AsyncOpenAI], Awaitable[T]]) -> T:
        """The result of one request, tried again after a 429, a 5xx or a time-out.

        Raises:
            RequestRefusedError: Status 400, 404 or 422.
            JudgeTimeout: No try was answered in time.
            JudgeError: The endpoint cannot be reached or replied no JSON; the text tells what to
                set.
        """
        retrying = AsyncRetrying(
            retry=retry_if_exception(is_transient),
            wait=wait,
            stop=stop_after_attempt(self._options.retries + 1),
            reraise=True,
        )
        try:
            return await retrying(self._once, request)
        except (openai.OpenAIError, TimeoutError, ValueError) as error:
            # Errors of the client may repeat a part of the request: they are not passed on.
            raise self._judge_error(error) from None

    async def aclose(self) -> None:
        """Closes this event loop's connections; a later call opens new ones."""
        line = self._lines.pop(asyncio.get_running_loop(), None)
        if line is not None:
            await line.client.close()

    def _judge_error(self, error: Exception) -> JudgeError:
        """The error as one line without content: what happened and what to set."""
        if isinstance(error, TimeoutError | openai.APITimeoutError):
            seconds, tries = self._options.timeout, self._options.retries + 1
            return JudgeTimeout(f"{self.name}: no reply within {seconds:g} s ({tries} tries)")
        if isinstance(error, openai.APIStatusError):
            return _status_error(self.name, error)
        if isinstance(error, openai.APIConnectionError):
            host = urlsplit(self._options.base_url or _OPENAI)
            place = f"{host.hostname}:{host.port}" if host.port else f"{host.hostname}"
            return JudgeError(f"{self.name}: the connection to {place} failed; check base_url")
        return JudgeError(f"{self.name}: the reply is no JSON ({type(error).__name__})")

    async def _once(self, request: Callable[[openai.AsyncOpenAI], Awaitable[T]]) -> T:
        line = self._line()
        async with line.slots, asyncio.timeout(self._options.timeout):
            return await request(line.client)

    def _line(self) -> _Line:
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None:
            line = _Line(self._client(), asyncio.Semaphore(self._options.concurrency))
            self._lines[loop] = line
        return line

    def _client(self) -> openai.AsyncOpenAI:
        options = self._options
        return openai.AsyncOpenAI(
            base_url=options.base_url or _OPENAI,
            api_key=options.api_key or _NO_KEY,
            default_headers=dict(options.headers),
            default_query=dict(options.query),
            timeout=options.timeout,
            max_retries=0,
        )


def _status_error(name: str, error: openai.APIStatusError) -> JudgeError:
    status = error.status_code
    code = error.code if error.code and re.fullmatch(r"[a-z_]{1,40}", error.code) else None
    told = ", ".join(filter(None, (f"HTTP {status}", code, _ADVICE.get(status))))
    if status not in (400, 404, 422):
        return JudgeError(f"{name}: {told}")
    body = error.body if isinstance(error.body, str) else json.dumps(error.body, default=str)
    return RequestRefusedError(f"{name}: {told}", status, body.lower())
