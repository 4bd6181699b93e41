"""Gets judgments and embeddings from OpenAI-compatible endpoints, with the package openai."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from dataclasses import field as option
from typing import Any, Final
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from rag_eval_hooks import own_requests
from rag_eval_hooks.calls import Caller, Operation
from rag_eval_hooks.errors import BudgetError, ConfigError, missing_extra
from rag_eval_hooks.explanation import encodable
from rag_eval_hooks.judges import checked_vectors
from rag_eval_hooks.judges.chat import ChatAdapter, ModelAdapter, OutputMode, reply_text
from rag_eval_hooks.judges.failures import DescribedError
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.judges.model_calls import CallLimits, Meter
from rag_eval_hooks.judges.prices import Prices
from rag_eval_hooks.prompts.prompt import Prompt, ReplyError
from rag_eval_hooks.providers import is_url

try:
    import openai
except ImportError as missing:
    raise missing_extra("An OpenAI-compatible judge", "openai") from missing

_BATCH: Final = 128  # maximum number of texts per request; every known endpoint accepts this number
_OPENAI: Final = "https://api.openai.com/v1"
_LONGEST_PAUSE: Final = 60.0
_FIRST_FAILURE: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions(CallLimits):
    """URL, credentials and call limits of an OpenAI-compatible endpoint. The repr hides secrets.

    Raises:
        ConfigError: A value is invalid.
    """

    base_url: str | None = None  # None means OpenAI's URL
    api_key: str | None = option(default=None, repr=False)  # optional with `base_url` or `headers`
    # The headers may contain a gateway's key.
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


_meter: ContextVar[Meter] = ContextVar("rag_eval_hooks_meter")


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
        token = _meter.set(meter)
        try:
            # The client's timeout restarts with each byte, so a slow reply could take forever.
            async with asyncio.timeout(self._longest):
                # The client's typed methods spend more time on the schema than on the call.
                with own_requests.quiet():
                    reply = await client.post(path, body=document, cast_to=object)
        except (openai.OpenAIError, ValueError) as error:
            raise meter.stopped or self._translated(error) from None
        finally:
            _meter.reset(token)
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
    meter = _meter.get()
    try:
        await meter.send()
    except BudgetError as error:
        meter.stopped = error
        raise openai.OpenAIError from None


async def _limit_reply(response: Any) -> None:
    meter = _meter.get()
    if response.status_code >= _FIRST_FAILURE:
        meter.fail()
    body = bytearray()
    try:
        own_requests.check_encoding(response)
        async for piece in response.aiter_bytes():
            own_requests.append(body, piece)
    except own_requests.ReplyTooLongError as error:
        meter.stopped = DescribedError(str(error))
        raise openai.OpenAIError from None
    # If `_content` is set, the client does not read the response's stream again.
    response._content = bytes(body)


def field(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None


class OpenAIJudge(LLMJudge):
    """Judges samples with a model of an OpenAI-compatible endpoint.

    Such endpoints are OpenAI, Azure, vLLM, Ollama and gateways.

    Args:
        model: Name of the model at the endpoint.
        temperature: Sampling temperature of the model. None means the endpoint's default.
        **options: Fields of `ClientOptions`, such as `base_url`, `api_key` and `timeout`, and
            keywords of `LLMJudge`.
    """

    def __init__(self, model: str, *, temperature: float | None = 0.0, **options: Any) -> None:
        client, others = ClientOptions.split(options)
        super().__init__(OpenAIChat(model, client, temperature=temperature), **others)


class OpenAIChat(ChatAdapter):
    def __init__(
        self, model: str, options: ClientOptions, *, temperature: float | None = 0.0
    ) -> None:
        caller = Caller(f"openai:{model}", provider="openai")
        scope = f"{options.base_url} {temperature}"
        about: dict[str, Any] = {"scope": scope, "endpoint": Endpoint(options)}
        super().__init__(caller, tuple(OutputMode), options, temperature=temperature, **about)
        self._model = model

    async def ask(
        self, prompt: Prompt, mode: OutputMode, temperature: float | None, meter: Meter
    ) -> str:
        user = prompt.user if mode is OutputMode.JSON_SCHEMA else prompt.user_with_shape
        messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": user}]
        body = {"model": self._model, "messages": messages, **_output_fields(prompt, mode)}
        if temperature is not None:
            body["temperature"] = temperature
        return _text(await self._endpoint.post("/chat/completions", body, meter))


def _output_fields(prompt: Prompt, mode: OutputMode) -> dict[str, Any]:
    if mode is OutputMode.JSON_SCHEMA:
        schema = {"name": prompt.name, "strict": True, "schema": prompt.schema}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    if mode is OutputMode.TOOL:
        function = {"name": prompt.name, "parameters": prompt.schema}
        choice = {"type": "function", "function": {"name": prompt.name}}
        return {"tools": [{"type": "function", "function": function}], "tool_choice": choice}
    return {"response_format": {"type": "json_object"}} if mode is OutputMode.JSON_OBJECT else {}


def _text(reply: Any) -> str:
    try:
        choice = reply["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        content = message.get("content")
        calls = [call["function"]["arguments"] for call in message.get("tool_calls") or ()]
    except (AttributeError, IndexError, KeyError, TypeError):
        problem = "the reply was " + ("an error" if field(reply, "error") else "empty")
        raise ReplyError(problem) from None
    if isinstance(content, list):
        parts = [field(part, "text") for part in content if field(part, "type") == "text"]
        content = "".join(part for part in parts if isinstance(part, str))
    return reply_text(content, calls, ["refusal" if message.get("refusal") else reason])


class OpenAIEmbedder(ModelAdapter):
    """Embeds texts with a model of an OpenAI-compatible endpoint.

    Args:
        model: Name of the model at the endpoint.
        prices: Token prices, from which scores show their cost. None omits the cost.
        **options: Fields of `ClientOptions`, such as `base_url`, `api_key` and `timeout`.
    """

    def __init__(
        self, model: str = "text-embedding-3-small", *, prices: Prices | None = None, **options: Any
    ) -> None:
        client = ClientOptions.of(options)
        caller = Caller(f"openai:{model}", Operation.EMBEDDINGS, "openai")
        super().__init__(caller, client, endpoint=Endpoint(client))
        self._model, self._prices = model, prices or Prices()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text, in order."""
        vectors: list[list[float]] = []
        for start in range(0, len(texts), _BATCH):
            # Endpoints reject empty texts. Requests cannot contain lone surrogates.
            batch = [encodable(text) or " " for text in texts[start : start + _BATCH]]
            body = {"model": self._model, "input": batch, "encoding_format": "float"}

            async def request(meter: Meter, body: dict[str, Any] = body) -> Any:
                return await self._endpoint.post("/embeddings", body, meter, self._prices)

            vectors += self._vectors(await self.call(request, batch), len(batch))
        return vectors

    def _vectors(self, reply: Any, count: int) -> list[list[float]]:
        try:
            rows = sorted((row["index"], array("d", row["embedding"])) for row in reply["data"])
        except (KeyError, TypeError):
            rows = []
        in_order = [index for index, _ in rows] == [*range(count)]
        vectors = [vector.tolist() for _, vector in rows] if in_order else []
        return checked_vectors(self.name, vectors, count)
