"""The HTTP client under the OpenAI client: aiohttp where it is installed, for its low cost."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final, Self

import openai

try:
    import aiohttp
except ImportError:
    aiohttp = None  # type: ignore[assignment]

__all__ = ["honest_connection_errors", "lean_http_client", "posted"]

_document: Final[ContextVar[bytes | None]] = ContextVar("rag_eval_hooks_document", default=None)
"""What the request that is being sent really holds."""


async def posted(client: openai.AsyncOpenAI, path: str, body: Mapping[str, Any]) -> object:
    """The JSON reply to a document, of which the client itself knows nothing.

    Clients before 3.20 log what they send, at the level DEBUG, and it quotes the application.

    Args:
        client: One over `lean_http_client`.
        path: Behind its base URL.
        body: The document.
    """
    told = _document.set(json.dumps(body, ensure_ascii=False, allow_nan=False).encode())
    try:
        # The raw route: the typed one spends more on checking the schema than on the call.
        return await client.post(path, body={}, cast_to=object)
    finally:
        _document.reset(told)


def lean_http_client(query: Mapping[str, str] = MappingProxyType({})) -> Any:
    """An asynchronous HTTP client for `openai.AsyncOpenAI`.

    Over aiohttp a call costs a third of the CPU of the default transport. It comes with
    `openai[aiohttp]`; older clients of OpenAI do not have it.

    Args:
        query: Parameters of every request. They may be secret, and the client logs the URLs that
            it knows: these are added behind its back.
    """
    make = getattr(openai, "DefaultAioHttpClient", None)
    client = openai.DefaultAsyncHttpxClient() if make is None or aiohttp is None else make()
    # No public place takes a transport that is to be wrapped; the client is nobody else's.
    client._transport = _Behind(client._transport, query)
    client._mounts = {
        pattern: transport and _Behind(transport, query)
        for pattern, transport in client._mounts.items()
    }
    return client


class _Behind:
    """A transport that puts into a request what its client must not log: document and query."""

    def __init__(self, transport: Any, query: Mapping[str, str]) -> None:
        self._transport = transport
        self._query = dict(query)

    async def handle_async_request(self, request: Any) -> Any:
        url = request.url.copy_merge_params(self._query) if self._query else request.url
        headers, content = request.headers.copy(), request.content
        if request.method == "POST" and (document := _document.get()) is not None:
            headers["Content-Length"], content = str(len(document)), document
        sent = type(request)(
            request.method, url, headers=headers, content=content, extensions=request.extensions
        )
        return await self._transport.handle_async_request(sent)

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._transport.__aexit__(*error)


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
