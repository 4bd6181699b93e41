"""Sends requests to OpenAI-compatible endpoints with the package openai."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from dataclasses import field as option
from typing import Any, Final
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from rag_eval_hooks import own_requests
from rag_eval_hooks.errors import BudgetError, ConfigError, missing_extra
from rag_eval_hooks.judges.calls.call_context import Meter
from rag_eval_hooks.judges.calls.call_limits import CallLimits
from rag_eval_hooks.judges.calls.failures import DescribedError
from rag_eval_hooks.judges.prices import Prices
from rag_eval_hooks.providers import is_url

try:
    import openai
except ImportError as missing:
    raise missing_extra("An OpenAI-compatible judge", "openai") from missing

_OPENAI: Final = "https://api.openai.com/v1"
_LONGEST_PAUSE: Final = 60.0
_FIRST_FAILURE: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions(CallLimits):
    """URL, credentials and call limits of an endpoint. The repr shows no secret.

    `base_url` is OpenAI's by default. `api_key` is optional if `base_url` or `headers` is set.
    `headers` may contain a gateway's key.

    Raises:
        ConfigError: A value is invalid.
    """

    base_url: str | None = None
    api_key: str | None = option(default=None, repr=False)
    headers: Mapping[str, str] = option(default_factory=dict, repr=False)
    timeout: float = 30.0
    retries: int = 3

    def __post_init__(self) -> None:
        if self.base_url is not None and not is_url(self.base_url):
            wants = "a URL that starts with http:// or https://, without credentials or parameters"
            raise ConfigError("base_url", self.base_url, wants)
        if not (self.api_key or self.base_url or self.headers):
            raise ConfigError("api_key", None, "a key, unless you set base_url or headers")
        for name, text in (("api_key", self.api_key or ""), *self.headers.items()):
            if not (text.isascii() and text.isprintable() and text == text.strip()):
                wants = "printable ASCII text without leading or trailing spaces"
                raise ConfigError(name, "**********", wants)
        CallLimits.__post_init__(self)


@dataclass(slots=True)
class _Post:
    meter: Meter
    stopped: Exception | None = None  # kept here, because the client would wrap our exception


_post: ContextVar[_Post] = ContextVar("rag_eval_hooks_post")


class Endpoint:
    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        address = urlsplit(options.base_url or _OPENAI)
        self.host = f"{address.hostname}:{address.port}" if address.port else f"{address.hostname}"
        self._longest = (options.timeout + _LONGEST_PAUSE) * (options.retries + 1)
        # Connections cannot move between event loops, so each loop has its own client.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, openai.AsyncOpenAI] = (
            WeakKeyDictionary()
        )

    async def post(
        self, path: str, document: Mapping[str, Any], meter: Meter, prices: Prices | None = None
    ) -> Any:
        client = self._client()
        post = _Post(meter)
        token = _post.set(post)
        try:
            # The client's timeout restarts with each byte, so a slow reply could take forever.
            async with asyncio.timeout(self._longest):
                # The client's typed methods spend more time on the schema than on the call.
                with own_requests.quiet():
                    reply = await client.post(path, body=document, cast_to=object)
        except (openai.OpenAIError, ValueError) as error:
            raise post.stopped or self._translated(error) from None
        finally:
            _post.reset(token)
        used = field(reply, "usage")
        read = field(used, "prompt_tokens") or field(used, "input_tokens")
        written = field(used, "completion_tokens") or field(used, "output_tokens")
        model, reply_id = field(reply, "model"), field(reply, "id")
        meter.replied(read, written, model=model, id=reply_id, prices=prices)
        return reply

    def _translated(self, error: Exception) -> Exception:
        if isinstance(error, openai.APITimeoutError):
            return TimeoutError()
        if isinstance(error, openai.APIConnectionError):
            told = f"cannot connect to {self.host}; start the endpoint, or check judge_base_url"
            return DescribedError(told)
        if isinstance(error, ValueError | openai.APIResponseValidationError):
            return DescribedError(f"the reply is not JSON ({type(error).__name__})")
        return error

    async def aclose(self) -> None:
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def _client(self) -> openai.AsyncOpenAI:
        loop, options = asyncio.get_running_loop(), self._options
        if (client := self._clients.get(loop)) is None:
            client = self._clients[loop] = openai.AsyncOpenAI(
                base_url=options.base_url or _OPENAI,
                # OpenAI's client requires a key, but endpoints without keys ignore the key.
                api_key=options.api_key or "none",
                default_headers={"accept-encoding": own_requests.ENCODINGS, **options.headers},
                timeout=options.timeout,
                max_retries=options.retries,
                http_client=openai.DefaultAsyncHttpxClient(
                    # A redirect would send prompts and keys to another origin.
                    follow_redirects=False,
                    event_hooks={"request": [_before_try], "response": [_limit_reply]},
                ),
            )
        return client


async def _before_try(_request: Any) -> None:
    post = _post.get()
    try:
        await post.meter.send()
    except BudgetError as error:
        post.stopped = error
        raise openai.OpenAIError from None


async def _limit_reply(response: Any) -> None:
    post = _post.get()
    if response.status_code >= _FIRST_FAILURE:
        post.meter.fail()
    body = bytearray()
    try:
        own_requests.check_encoding(response)
        async for piece in response.aiter_bytes():
            own_requests.append(body, piece)
    except own_requests.ReplyTooLongError as error:
        post.stopped = DescribedError(str(error))
        raise openai.OpenAIError from None
    # If `_content` is set, the client does not read the response's stream again.
    response._content = bytes(body)


def field(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None
