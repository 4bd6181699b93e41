"""Judge over any OpenAI-compatible chat endpoint: OpenAI, Azure, vLLM, Ollama, gateways."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Unpack

from rag_eval_hooks.calls import Caller
from rag_eval_hooks.judges.calls.gate import BREAKER_FAILURES, BREAKER_PAUSE
from rag_eval_hooks.judges.chat import ChatAdapter, OutputMode, Reply, Send, only_text
from rag_eval_hooks.judges.endpoint import ClientOptions, Endpoint
from rag_eval_hooks.judges.llm import LLMJudge, LLMOptions
from rag_eval_hooks.prompts import Prompt, ReplyError

__all__ = ["OpenAIChat", "OpenAIJudge"]


class OpenAIJudge(LLMJudge):
    """`LLMJudge` over an OpenAI-compatible endpoint.

    Args:
        model: The endpoint's name for the model.
        base_url: Address of the endpoint; OpenAI's own by default.
        api_key: Key of the endpoint.
        headers: Extra headers for a gateway.
        query: Extra query parameters, such as `api-version`.
        temperature: Sampling temperature, or None to send none.
        timeout: Seconds for one call.
        retries: Further tries after a 429, a 5xx or a time-out.
        concurrency: Calls in flight at once, at most: fewer while many get a 429 or a time-out.
        breaker_failures: Failures in a row after which no call is made for a while.
        breaker_pause: Seconds of that while; it doubles up to six times as long.
        **options: Keywords of `LLMJudge`.

    Raises:
        ConfigError: A value cannot be used.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        temperature: float | None = 0.0,
        timeout: float = 30.0,
        retries: int = 3,
        concurrency: int = 16,
        breaker_failures: int = BREAKER_FAILURES,
        breaker_pause: float = BREAKER_PAUSE,
        **options: Unpack[LLMOptions],
    ) -> None:
        client = ClientOptions(
            base_url=base_url,
            api_key=api_key,
            headers=dict(headers or {}),
            query=dict(query or {}),
            timeout=timeout,
            retries=retries,
            concurrency=concurrency,
            breaker_failures=breaker_failures,
            breaker_pause=breaker_pause,
        )
        super().__init__(OpenAIChat(model, client, temperature=temperature), **options)


class OpenAIChat(ChatAdapter):
    """One model behind `/chat/completions`.

    Args:
        model: The endpoint's name for the model.
        options: Address and limits of the endpoint.
        temperature: Sampling temperature, or None to send none.
    """

    _isolated = False

    def __init__(
        self, model: str, options: ClientOptions, *, temperature: float | None = 0.0
    ) -> None:
        caller = Caller(f"openai:{model}", provider="openai")
        super().__init__(caller, tuple(OutputMode), options, temperature=temperature)
        self.memo_scope = f"{options.base_url} {sorted(options.query.items())} {temperature}"
        self._model = model
        self._endpoint = Endpoint(options)

    def __repr__(self) -> str:
        return f"OpenAIChat({self.name!r}, {self._endpoint!r})"

    def prepare(self, prompt: Prompt, mode: OutputMode, temperature: float | None) -> Send:
        """Prepare a request for a chat completion."""
        user = prompt.user if mode is OutputMode.JSON_SCHEMA else prompt.user_with_shape
        messages = [
            {"role": "system", "content": prompt.system},
            {"role": "user", "content": user},
        ]
        body = {"model": self._model, "messages": messages, **_output_fields(prompt, mode)}
        if temperature is not None:
            body["temperature"] = temperature
        document = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        self._endpoint.open()

        async def send() -> Reply:
            return _reply(await self._endpoint.post("/chat/completions", document))

        return send

    async def aclose(self) -> None:
        """Close the connections."""
        await self._endpoint.aclose()


def _output_fields(prompt: Prompt, mode: OutputMode) -> dict[str, Any]:
    """Return the fields of the request that ask for the shape of the reply."""
    if mode is OutputMode.JSON_SCHEMA:
        schema = {"name": prompt.name, "strict": True, "schema": prompt.schema}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    if mode is OutputMode.TOOL:
        function = {"name": prompt.name, "parameters": prompt.schema}
        choice = {"type": "function", "function": {"name": prompt.name}}
        return {"tools": [{"type": "function", "function": function}], "tool_choice": choice}
    return {"response_format": {"type": "json_object"}} if mode is OutputMode.JSON_OBJECT else {}


def _reply(completion: Any) -> Reply:
    used, model, reply_id = (_field(completion, name) for name in ("usage", "model", "id"))
    return Reply(
        lambda: _text(completion),
        input_tokens=_field(used, "prompt_tokens"),
        output_tokens=_field(used, "completion_tokens"),
        model=model if isinstance(model, str) else None,
        id=reply_id if isinstance(reply_id, str) else None,
    )


def _text(completion: Any) -> str:
    """Return the reply's text, or the arguments of its tool call.

    Raises:
        ReplyError: There is none, or only a part of it.
    """
    try:
        choice = completion["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        content = message.get("content")
        calls = [call["function"]["arguments"] for call in message.get("tool_calls") or ()]
    except (AttributeError, IndexError, KeyError, TypeError):
        raise ReplyError("it was empty") from None
    if reason in ("length", "content_filter"):
        raise ReplyError("it was cut off; be brief")
    if message.get("refusal"):
        raise ReplyError("it was a refusal")
    return only_text(content, calls)


def _field(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None
