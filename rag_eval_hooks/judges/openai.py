"""A judge over any OpenAI-compatible chat endpoint: OpenAI, Azure, vLLM, Ollama, gateways."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from rag_eval_hooks.judges.client_options import ClientOptions
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.judges.openai_client import Endpoint, RequestRefusedError
from rag_eval_hooks.prompts import Prompt
from rag_eval_hooks.prompts.ask import ReplyError

__all__ = ["OpenAIChat", "OpenAIJudge"]


class _Rung(IntEnum):
    """How the shape of a reply is asked for, best first."""

    JSON_SCHEMA = 0
    JSON_OBJECT = 1
    TEXT = 2


_ABOUT_FORMAT = re.compile(
    r"response.?format|json.?(schema|object|mode)|structured.?output|guided|requested parameters"
)


@dataclass(frozen=True, slots=True)
class _Dialect:
    """What of the protocol an endpoint takes for a model."""

    rung: _Rung = _Rung.JSON_SCHEMA
    temperature: bool = True

    def without(self, refused: RequestRefusedError) -> _Dialect | None:
        """The dialect without what the complaint is about, or None if that is something else."""
        complaint = refused.complaint
        if self.temperature and "temperature" in complaint and refused.status != 404:
            return replace(self, temperature=False)
        if self.rung is not _Rung.TEXT and _ABOUT_FORMAT.search(complaint):
            return replace(self, rung=_Rung(self.rung + 1))
        return None

    def meet(self, other: _Dialect) -> _Dialect:
        """What both take: calls that learned at the same time do not add up their steps."""
        return _Dialect(max(self.rung, other.rung), self.temperature and other.temperature)


class OpenAIChat:
    """One model behind `/chat/completions`.

    The shape of the reply is asked for by JSON Schema, else by JSON mode, else by the prompt
    alone, whichever the endpoint takes; this, and whether it takes a temperature, is learned
    from its refusals, once.

    Args:
        model: The endpoint's name for the model.
        options: How to reach it.
        temperature: Sampling temperature, or None to send none.
    """

    def __init__(
        self, model: str, options: ClientOptions, *, temperature: float | None = 0.0
    ) -> None:
        self._model = model
        self._temperature = temperature
        self._endpoint = Endpoint(f"openai:{model}", options)
        self._dialect = _Dialect(temperature=temperature is not None)

    def __repr__(self) -> str:
        return f"OpenAIChat({self._endpoint!r})"

    @property
    def name(self) -> str:
        """`openai:` and the model."""
        return self._endpoint.name

    async def complete(self, prompt: Prompt) -> str:
        """The text of the model's reply.

        Raises:
            ReplyError: It was cut off at the token limit, refused, filtered or empty.
            JudgeTimeout: It did not come in time, retries included.
            JudgeError: The endpoint cannot be reached or refused the request.
        """
        dialect = self._dialect
        while True:
            try:
                completion = await self._create(prompt, dialect)
            except RequestRefusedError as refused:
                lower = dialect.without(refused)
                if lower is None:
                    raise
                dialect = lower
            else:
                self._dialect = self._dialect.meet(dialect)
                return _text(completion)

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._endpoint.aclose()

    async def _create(self, prompt: Prompt, dialect: _Dialect) -> Any:
        body: dict[str, Any] = {"model": self._model, "messages": _messages(prompt, dialect.rung)}
        if dialect.temperature:
            body["temperature"] = self._temperature
        if dialect.rung is not _Rung.TEXT:
            body["response_format"] = _response_format(prompt, dialect.rung)
        return await self._endpoint.call(lambda client: client.chat.completions.create(**body))


class OpenAIJudge(LLMJudge):
    """`LLMJudge` over an OpenAI-compatible endpoint.

    Args:
        model: The endpoint's name for the model.
        base_url: The endpoint; OpenAI's own by default.
        api_key: Its key.
        headers: Extra headers for a gateway.
        query: Extra query parameters, such as `api-version`.
        temperature: Sampling temperature, or None to send none.
        timeout: Seconds for one call.
        retries: Further tries after a 429, a 5xx or a time-out.
        concurrency: Calls in flight at once.
        attempts: How often one task may be asked in all, until every item has a valid reply.

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
        attempts: int = 3,
    ) -> None:
        options = ClientOptions(
            base_url=base_url,
            api_key=api_key,
            headers=dict(headers or {}),
            query=dict(query or {}),
            timeout=timeout,
            retries=retries,
            concurrency=concurrency,
        )
        super().__init__(OpenAIChat(model, options, temperature=temperature), attempts=attempts)


def _messages(prompt: Prompt, rung: _Rung) -> list[dict[str, str]]:
    user = prompt.user if rung is _Rung.JSON_SCHEMA else prompt.user_with_shape
    return [{"role": "system", "content": prompt.system}, {"role": "user", "content": user}]


def _response_format(prompt: Prompt, rung: _Rung) -> dict[str, Any]:
    if rung is _Rung.JSON_OBJECT:
        return {"type": "json_object"}
    schema = {"name": prompt.name, "strict": True, "schema": prompt.schema}
    return {"type": "json_schema", "json_schema": schema}


def _text(completion: Any) -> str:
    """The reply's text.

    Raises:
        ReplyError: There is none, or only a part of it.
    """
    try:
        choice = completion.choices[0]
        content, refusal = choice.message.content, getattr(choice.message, "refusal", None)
    except (AttributeError, IndexError, TypeError):
        raise ReplyError("it was empty") from None
    if choice.finish_reason in ("length", "content_filter"):
        raise ReplyError("it was cut off; be brief")
    if refusal:
        raise ReplyError("it was a refusal")
    if not isinstance(content, str) or not content.strip():
        raise ReplyError("it was empty")
    return content
