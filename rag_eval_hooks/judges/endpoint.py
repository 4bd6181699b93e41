"""OpenAI-compatible endpoints, by OpenAI's own client."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.judges.calls.failures import DescribedError
from rag_eval_hooks.judges.calls.gate import CallLimits
from rag_eval_hooks.judges.calls.requests import RetryKeywords

try:
    import openai
except ImportError as missing:
    raise ImportError(
        'OpenAI-compatible judges need an extra: pip install "rag-eval-hooks[openai]"'
    ) from missing

try:
    import aiohttp
except ImportError:
    aiohttp = None  # type: ignore[assignment]

__all__ = ["ClientOptions", "Endpoint", "EndpointKeywords"]

_OPENAI: Final = "https://api.openai.com/v1"
_NO_KEY: Final = "none"
"""Placeholder: the client insists on a key, and endpoints without keys ignore it."""
_EMPTY: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions(CallLimits):
    """Address and credentials of an endpoint, and the limits of calls. Its repr shows no secret.

    Attributes:
        base_url: Address of the endpoint; OpenAI's own by default.
        api_key: Key; may be left out for another `base_url` than OpenAI's.
        headers: Extra headers, such as a gateway's own key.
        query: Extra query parameters, such as `api-version`.

    Raises:
        ConfigError: `base_url` is no URL, a key is missing or cannot stand in a header, or a
            limit is out of range.
    """

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=lambda: _EMPTY, repr=False)
    query: Mapping[str, str] = field(default_factory=lambda: _EMPTY, repr=False)
    timeout: float = 30.0
    retries: int = 3

    def __post_init__(self) -> None:
        """Refuse options that no request can be sent with."""
        if self.base_url is not None and not _is_plain(self.base_url):
            wants = "a URL with http:// or https://, without credentials or parameters"
            raise ConfigError("base_url", self.base_url, wants)
        _check_key(self)
        CallLimits.__post_init__(self)


class EndpointKeywords(RetryKeywords, total=False):
    """Fields of `ClientOptions` as keywords of a judge or an embedder."""

    base_url: str | None
    api_key: str | None
    headers: Mapping[str, str] | None
    query: Mapping[str, str] | None


class _ConnectionFailedError(DescribedError, ConnectionError):
    """The connection could not be made, or broke."""


class _NotJsonError(DescribedError, ValueError):
    """The reply is no JSON."""


class Endpoint:
    """JSON documents by POST to one endpoint.

    Args:
        options: Address and credentials.
    """

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        # Connections cannot move between event loops: each loop has its own client.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, openai.AsyncOpenAI] = (
            WeakKeyDictionary()
        )

    def __repr__(self) -> str:
        return f"Endpoint({self._options!r})"

    def open(self) -> None:
        """Make the client of the running loop, so that no call's time goes into it."""
        self._client()

    async def post(self, path: str, document: Mapping[str, Any]) -> Any:
        """Send a JSON document to a path behind the base URL, and return the JSON of the reply.

        Raises:
            openai.APIStatusError: The status is 400 or above.
            openai.APITimeoutError: There was no reply in time.
            ConnectionError: The connection could not be made, or broke.
            ValueError: The reply is no JSON.
        """
        try:
            # The typed methods spend more on checking the schema than on the call.
            return await self._client().post(path, body=document, cast_to=object)
        except openai.APIConnectionError as error:
            if isinstance(error, openai.APITimeoutError) and not _is_broken_connection(error):
                raise
            raise _ConnectionFailedError(self._failed_connection()) from None
        except (ValueError, openai.APIResponseValidationError) as error:
            raise _NotJsonError(f"the reply is no JSON ({type(error).__name__})") from None

    async def aclose(self) -> None:
        """Close the running loop's connections; a later call opens new ones."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

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
            http_client=_http_client(options.query),
        )

    @property
    def host(self) -> str:
        """Host and port of the address."""
        address = urlsplit(self._options.base_url or _OPENAI)
        return f"{address.hostname}:{address.port}" if address.port else f"{address.hostname}"

    def _failed_connection(self) -> str:
        return f"the connection to {self.host} failed; check base_url"


class _HiddenQuery:
    """HTTP transport that adds parameters to requests, below all logging of URLs.

    Args:
        transport: Sends the requests.
        query: Parameters of every request, which may be keys.
    """

    def __init__(self, transport: Any, query: Mapping[str, str]) -> None:
        self._transport = transport
        self._query = dict(query)

    async def handle_async_request(self, request: Any) -> Any:
        sent = type(request)(
            request.method,
            request.url.copy_merge_params(self._query),
            headers=request.headers,
            content=request.content,
            extensions=request.extensions,
        )
        return await self._transport.handle_async_request(sent)

    async def aclose(self) -> None:
        await self._transport.aclose()


def _http_client(query: Mapping[str, str]) -> Any:
    """Make the HTTP client below OpenAI's: over aiohttp if possible, for a third of the CPU."""
    make = openai.DefaultAsyncHttpxClient if aiohttp is None else openai.DefaultAioHttpClient
    client: Any = make()
    if query:
        # No public parameter takes a transport without losing aiohttp and the environment's
        # proxies; the client is ours alone.
        client._transport = _HiddenQuery(client._transport, query)
        client._mounts = {
            pattern: transport and _HiddenQuery(transport, query)
            for pattern, transport in client._mounts.items()
        }
    return client


def _is_broken_connection(error: BaseException) -> bool:
    """Return whether a time-out is none: by aiohttp, the client takes broken connections for it."""
    cause = error.__cause__
    while cause is not None:
        if aiohttp is not None and isinstance(cause, aiohttp.ClientError):
            return not isinstance(cause, TimeoutError)
        cause = cause.__cause__
    return False


def _is_plain(url: str) -> bool:
    # URLs appear in messages and logs.
    is_http = url.startswith(("http://", "https://"))
    return is_http and "@" not in url.split("/")[2] and "?" not in url


def _check_key(options: ClientOptions) -> None:
    if not (options.api_key or options.base_url or options.headers):
        raise ConfigError("api_key", None, "a key, or the base_url of an endpoint without keys")
    for name, text in (("api_key", options.api_key or ""), *options.headers.items()):
        if not (text.isascii() and text.isprintable() and text == text.strip()):
            raise ConfigError(name, "**********", "printable ASCII text without spaces around it")
