"""HTTP endpoints that take and return JSON, over aiohttp."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

from rag_eval_hooks._version import __version__
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.judges.calls.failures import DescribedError
from rag_eval_hooks.judges.calls.gate import Limits

try:
    import aiohttp
except ImportError as missing:
    raise ImportError(
        'OpenAI-compatible judges need an extra: pip install "rag-eval-hooks[openai]"'
    ) from missing

__all__ = ["ClientOptions", "Endpoint"]

_OPENAI: Final = "https://api.openai.com/v1"
_EMPTY: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions(Limits):
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
        Limits.__post_init__(self)


class _StatusError(Exception):
    """Reply with an HTTP status of 400 or above.

    Attributes:
        status_code: The status.
        code: The error's code as the endpoint names it, or None.
        headers: Headers of the reply.
        complaint: Body of the reply. It may repeat content: never log it.
    """

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(f"HTTP {status}")
        self.status_code = status
        self.headers = headers
        self.complaint = body.decode("utf-8", "replace")
        self.code = _code(body)


class _ConnectionFailedError(DescribedError, ConnectionError):
    """The connection could not be made, or broke."""


class _NotJsonError(DescribedError, ValueError):
    """The reply is no JSON."""


class Endpoint:
    """JSON over HTTP POST. Connections are made in the event loop that first uses them.

    Args:
        options: Address and credentials.
    """

    def __init__(self, options: ClientOptions) -> None:
        self._url = (options.base_url or _OPENAI).rstrip("/")
        self._options = options
        self._proxy = _proxy(self._url)
        # Connections cannot move between event loops: each loop has its own session.
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = (
            WeakKeyDictionary()
        )

    def __repr__(self) -> str:
        return f"Endpoint({self._options!r})"

    def open(self) -> None:
        """Make the session of the running loop, so that no call's time goes into it."""
        self._session()

    async def post(self, path: str, document: bytes) -> Any:
        """Send a document and return the JSON of the reply.

        Args:
            path: Path behind the base URL.
            document: The document, as JSON in UTF-8.

        Raises:
            _StatusError: The status is 400 or above.
            ConnectionError: The connection could not be made, or broke.
            ValueError: The reply is no JSON.
        """
        params = self._options.query or None
        try:
            async with self._session().post(
                self._url + path, data=document, params=params, proxy=self._proxy
            ) as response:
                body = await response.read()
        except aiohttp.ClientError as error:
            if isinstance(error, TimeoutError):
                raise
            raise _ConnectionFailedError(self._failed_connection()) from None
        if response.status >= 400:
            raise _StatusError(response.status, response.headers, body)
        try:
            return json.loads(body)
        except ValueError as error:
            raise _NotJsonError(f"the reply is no JSON ({type(error).__name__})") from None

    async def aclose(self) -> None:
        """Close the running loop's connections; a later call opens new ones."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            session = self._sessions[loop] = self._new_session()
        return session

    def _new_session(self) -> aiohttp.ClientSession:
        options = self._options
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"rag-eval-hooks/{__version__}",
        }
        if options.api_key:
            headers["Authorization"] = f"Bearer {options.api_key}"
        secure = self._url.startswith("https:")
        return aiohttp.ClientSession(
            # The gate limits the calls in flight, `Requests` their time.
            connector=aiohttp.TCPConnector(limit=0, ssl=_certificates() if secure else True),
            timeout=aiohttp.ClientTimeout(total=None),
            headers={**headers, **options.headers},
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    def _failed_connection(self) -> str:
        address = urlsplit(self._url)
        host = f"{address.hostname}:{address.port}" if address.port else f"{address.hostname}"
        return f"the connection to {host} failed; check base_url"


def _proxy(url: str) -> str | None:
    """Return the proxy that the system sets for a URL, or None."""
    address = urlsplit(url)
    if not address.hostname or proxy_bypass(address.hostname):
        return None
    # aiohttp could look it up itself, by a hop to another thread for each request.
    proxies = getproxies()
    return proxies.get(address.scheme) or proxies.get("all")


def _certificates() -> ssl.SSLContext:
    """Trust the system's certificate authorities, and certifi's where it is installed."""
    context = ssl.create_default_context()
    try:
        import certifi
    except ImportError:
        return context
    context.load_verify_locations(certifi.where())
    return context


def _code(body: bytes) -> str | None:
    """Return the code of an error document like OpenAI's, or None."""
    try:
        document = json.loads(body)
    except ValueError:
        return None
    error = document.get("error", document) if isinstance(document, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, str) else None


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
