"""One OpenAI-compatible endpoint: its client, limits, retries and errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from rag_eval_hooks.calls import Call, Caller, Operation
from rag_eval_hooks.errors import JudgeError, JudgeTimeout
from rag_eval_hooks.judges.calls.meter import Meter, token_count

try:
    import openai

    from rag_eval_hooks.judges.calls.retry import retried
except ImportError as missing:
    raise ImportError(
        'OpenAI-compatible judges need an extra: pip install "rag-eval-hooks[openai]"'
    ) from missing

from rag_eval_hooks.judges.calls.failures import describe
from rag_eval_hooks.judges.calls.slots import Slots
from rag_eval_hooks.judges.client_options import ClientOptions
from rag_eval_hooks.judges.http_client import honest_connection_errors, lean_http_client, posted

__all__ = ["Endpoint", "RequestRefusedError"]

T = TypeVar("T")

_OPENAI = "https://api.openai.com/v1"
_NO_KEY = "none"
"""Endpoints without keys, such as a local vLLM, ignore it; the client insists on one."""
_REFUSALS = (400, 404, 422)


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
        operation: What it is asked for.
    """

    def __init__(
        self, name: str, options: ClientOptions, operation: Operation = Operation.CHAT
    ) -> None:
        self.name = name
        self._options = options
        self._slots = Slots(
            Caller(name, operation, provider=name.partition(":")[0]),
            options.concurrency,
            failures=options.breaker_failures,
            pause=options.breaker_pause,
        )
        # Connections cannot move between loops: each has its own.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, openai.AsyncOpenAI] = (
            WeakKeyDictionary()
        )

    def __repr__(self) -> str:
        return f"Endpoint({self.name!r}, {self._options!r})"

    async def call(
        self, request: Callable[[openai.AsyncOpenAI], Awaitable[T]], meter: Meter | None = None
    ) -> T:
        """The result of one request, tried again after a 429, a 5xx or a time-out.

        Args:
            request: Sends it by the client.
            meter: Counts what is sent, each try anew.

        Raises:
            RequestRefusedError: Status 400, 404 or 422.
            JudgeTimeout: No try was answered in time.
            JudgeUnavailable: Too many calls failed in a row; none is made for a while.
            JudgeError: The endpoint cannot be reached or replied no JSON; the text tells what to
                set.
        """
        counted = meter or Meter()
        try:
            return await retried(partial(self._once, request, counted), self._options.retries)
        except (openai.OpenAIError, TimeoutError, ValueError) as error:
            # Errors of the client may repeat a part of the request: they are not passed on.
            raise self._judge_error(error) from None

    async def post(self, path: str, body: Mapping[str, Any], meter: Meter) -> Any:
        """The JSON reply to a document that no log of the client's shows; as `call`.

        Args:
            path: Behind the base URL.
            body: The document.
            meter: Counts what is sent.
        """
        return await self.call(lambda client: posted(client, path, body), meter)

    async def aclose(self) -> None:
        """Closes this event loop's connections; a later call opens new ones."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

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

    async def _once(self, request: Callable[[openai.AsyncOpenAI], Awaitable[T]], meter: Meter) -> T:
        async with self._slots.here() as call:
            # The first call makes the client, which reads certificates: no part of the call's time.
            client = self._client()
            with meter.sending():
                async with asyncio.timeout(self._options.timeout):
                    with honest_connection_errors():
                        reply = await request(client)
            _tell(call, reply)
            return reply

    def _client(self) -> openai.AsyncOpenAI:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = self._new_client()
        return client

    def _new_client(self) -> openai.AsyncOpenAI:
        options = self._options
        return openai.AsyncOpenAI(
            base_url=options.base_url or _OPENAI,
            api_key=options.api_key or _NO_KEY,
            default_headers=dict(options.headers),
            timeout=options.timeout,
            max_retries=0,
            http_client=lean_http_client(options.query),
        )


def _tell(call: Call, reply: object) -> None:
    """Adds what the reply says of itself."""
    if not isinstance(reply, dict):
        return
    model, reply_id, used = reply.get("model"), reply.get("id"), reply.get("usage")
    call.response_model = model if isinstance(model, str) else None
    call.response_id = reply_id if isinstance(reply_id, str) else None
    if isinstance(used, dict):
        call.input_tokens = token_count(used.get("prompt_tokens"))
        call.output_tokens = token_count(used.get("completion_tokens"))


def _status_error(name: str, error: openai.APIStatusError) -> JudgeError:
    line = f"{name}: {describe(error)}"
    if error.status_code not in _REFUSALS:
        return JudgeError(line)
    body = error.body if isinstance(error.body, str) else json.dumps(error.body, default=str)
    return RequestRefusedError(line, error.status_code, body.lower())
