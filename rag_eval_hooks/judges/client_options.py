"""How to reach an HTTP endpoint of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.judges.calls.slots import (
    BREAKER_FAILURES,
    BREAKER_PAUSE,
    check_breaker,
    check_limits,
)

__all__ = ["ClientOptions"]

_EMPTY: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """How to reach an endpoint. Its repr shows no secret.

    Attributes:
        base_url: The endpoint; OpenAI's own by default.
        api_key: Its key; may be left out for another `base_url` than OpenAI's.
        headers: Extra headers, such as a gateway's own key.
        query: Extra query parameters, such as `api-version`.
        timeout: Seconds for one call, from sending to the reply's end; retries count anew.
        retries: Further tries after a 429, a 5xx or a time-out.
        concurrency: Calls in flight at once, at most: fewer after a 429 or a time-out.
        breaker_failures: In a row, after which no call is made for a while.
        breaker_pause: Seconds of that while; it doubles up to six times as long.
    """

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=lambda: _EMPTY, repr=False)
    query: Mapping[str, str] = field(default_factory=lambda: _EMPTY, repr=False)
    timeout: float = 30.0
    retries: int = 3
    concurrency: int = 16
    breaker_failures: int = BREAKER_FAILURES
    breaker_pause: float = BREAKER_PAUSE

    def __post_init__(self) -> None:
        """Refuses what no request can be sent with.

        Raises:
            ConfigError: `base_url` is no URL, a key is missing or cannot stand in a header, or
                a limit is out of range.
        """
        if self.base_url is not None and not _is_plain(self.base_url):
            wants = "a URL with http:// or https://, without credentials or parameters"
            raise ConfigError("base_url", self.base_url, wants)
        _check_key(self)
        check_limits(self.timeout, self.retries, self.concurrency)
        check_breaker(self.breaker_failures, self.breaker_pause)


def _is_plain(url: str) -> bool:
    # Clients log the URLs that they call.
    is_http = url.startswith(("http://", "https://"))
    return is_http and "@" not in url.split("/")[2] and "?" not in url


def _check_key(options: ClientOptions) -> None:
    if not (options.api_key or options.base_url or options.headers):
        raise ConfigError("api_key", None, "a key, or the base_url of an endpoint without keys")
    for name, text in (("api_key", options.api_key or ""), *options.headers.items()):
        if not (text.isascii() and text.isprintable() and text == text.strip()):
            raise ConfigError(name, "**********", "printable ASCII text without spaces around it")
