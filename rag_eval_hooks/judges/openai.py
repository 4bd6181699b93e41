"""Asks OpenAI-compatible endpoints for judgments and embeddings."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Final

from rag_eval_hooks.calls import Caller, Operation
from rag_eval_hooks.explanation import encodable
from rag_eval_hooks.judges.calls.call_context import Meter, ModelCalls
from rag_eval_hooks.judges.chat import ChatAdapter, OutputMode, reply_text
from rag_eval_hooks.judges.endpoint import ClientOptions, Endpoint, field
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.judges.prices import Prices
from rag_eval_hooks.judges.sources import checked_vectors
from rag_eval_hooks.prompts.prompt import Prompt, ReplyError

_BATCH: Final = 128  # maximum number of texts per request; every known endpoint accepts this number


class OpenAIJudge(LLMJudge):
    """Makes findings with an OpenAI-compatible endpoint: OpenAI, Azure, vLLM, Ollama or a gateway.

    Args:
        model: The endpoint's name for the model.
        temperature: Sampling temperature. None means the endpoint's default.
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
        super().__init__(caller, tuple(OutputMode), options, temperature=temperature, scope=scope)
        self._model = model
        self._endpoint = Endpoint(options)
        self.host = self._endpoint.host

    async def aclose(self) -> None:
        await self._endpoint.aclose()

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


class OpenAIEmbedder:
    """Embeds texts through `/embeddings`.

    Args:
        model: The endpoint's name for the model.
        prices: Token prices, for the cost of each score. None omits the costs.
        **options: Fields of `ClientOptions`, such as `base_url`, `api_key` and `timeout`.
    """

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        *,
        prices: Prices | None = None,
        **options: Any,
    ) -> None:
        client = ClientOptions.of(options)
        self.name = f"openai:{model}"
        self._model = model
        self._endpoint = Endpoint(client)
        self.host = self._endpoint.host
        self._calls = ModelCalls(Caller(self.name, Operation.EMBEDDINGS, provider="openai"), client)
        self._prices = prices or Prices()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text, in order."""
        vectors: list[list[float]] = []
        for start in range(0, len(texts), _BATCH):
            # Endpoints reject empty texts. Requests cannot contain lone surrogates.
            batch = [encodable(text) or " " for text in texts[start : start + _BATCH]]
            body = {"model": self._model, "input": batch, "encoding_format": "float"}

            async def request(meter: Meter, body: dict[str, Any] = body) -> Any:
                return await self._endpoint.post("/embeddings", body, meter, self._prices)

            vectors += self._vectors(await self._calls.make(request, batch), len(batch))
        return vectors

    async def aclose(self) -> None:
        await self._endpoint.aclose()

    def _vectors(self, reply: Any, count: int) -> list[list[float]]:
        try:
            rows = sorted((row["index"], array("d", row["embedding"])) for row in reply["data"])
        except (KeyError, TypeError):
            rows = []
        in_order = [index for index, _ in rows] == [*range(count)]
        vectors = [vector.tolist() for _, vector in rows] if in_order else []
        return checked_vectors(self.name, vectors, count)
