"""The HTTP client under the OpenAI client: aiohttp where it is installed, for its low cost."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Self

import openai

try:
    import aiohttp
except ImportError:
    aiohttp = None  # type: ignore[assignment]

__all__ = ["honest_connection_errors", "lean_http_client"]


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
    if query:
        # No public place takes a transport that is to be wrapped; the client is nobody else's.
        client._transport = _Querying(client._transport, query)
        client._mounts = {
            pattern: transport and _Querying(transport, query)
            for pattern, transport in client._mounts.items()
        }
    return client


class _Querying:
    """A transport that adds query parameters to what is sent, and to nothing that is logged."""

    def __init__(self, transport: Any, query: Mapping[str, str]) -> None:
        self._transport = transport
        self._query = dict(query)

    async def handle_async_request(self, request: Any) -> Any:
        known = request.url
        request.url = known.copy_merge_params(self._query)
        try:
            return await self._transport.handle_async_request(request)
        finally:
            request.url = known

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
