"""Judge over any OpenAI-compatible chat endpoint: OpenAI, Azure, vLLM, Ollama, gateways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

from rag_eval_hooks.judges.calls.gate import BREAKER_FAILURES, BREAKER_PAUSE
from rag_eval_hooks.judges.endpoint import ClientOptions
from rag_eval_hooks.judges.llm import LLMJudge, LLMOptions
from rag_eval_hooks.judges.openai_chat import OpenAIChat

__all__ = ["OpenAIJudge"]


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
