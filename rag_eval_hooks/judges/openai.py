"""`OpenAIJudge`: a judge over any OpenAI-compatible chat endpoint."""

from __future__ import annotations

from typing import Any, Unpack

from rag_eval_hooks.calls import Caller
from rag_eval_hooks.judges.calls.call_context import Meter
from rag_eval_hooks.judges.chat import ChatAdapter, OutputMode, only_text, refuse_unfinished
from rag_eval_hooks.judges.endpoint import ClientOptions, Endpoint, EndpointKeywords, field
from rag_eval_hooks.judges.llm import LLMJudge, ModelOptions
from rag_eval_hooks.prompts import Prompt, ReplyError


class _Keywords(EndpointKeywords, ModelOptions, total=False):
    pass


class OpenAIJudge(LLMJudge):
    """A judge over an OpenAI-compatible chat endpoint: OpenAI, Azure, vLLM, Ollama or a gateway.

    Args:
        model: The endpoint's name for the model.
        temperature: Sampling temperature, or None to send none.
        **options: Fields of `ClientOptions`, such as `base_url`, `api_key` and `timeout`, and
            keywords of `LLMJudge`.

    Raises:
        ConfigError: A value is invalid.
    """

    def __init__(
        self, model: str, *, temperature: float | None = 0.0, **options: Unpack[_Keywords]
    ) -> None:
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

    async def ask(
        self, prompt: Prompt, mode: OutputMode, temperature: float | None, meter: Meter
    ) -> str:
        user = prompt.user if mode is OutputMode.JSON_SCHEMA else prompt.user_with_shape
        messages = [
            {"role": "system", "content": prompt.system},
            {"role": "user", "content": user},
        ]
        body = {"model": self._model, "messages": messages, **_output_fields(prompt, mode)}
        if temperature is not None:
            body["temperature"] = temperature
        return _text(await self._endpoint.post("/chat/completions", body, meter))

    async def aclose(self) -> None:
        await self._endpoint.aclose()


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
        raise ReplyError(_without_choice(reply)) from None
    refuse_unfinished("refusal" if message.get("refusal") else reason)
    if isinstance(content, list):
        content = "".join(map(_written, content))
    if reason == "length" and not (content or calls):
        raise ReplyError("the token limit was reached before any text")
    return only_text(content, calls)


def _written(part: Any) -> str:
    text = field(part, "text") if field(part, "type") == "text" else None
    return text if isinstance(text, str) else ""


def _without_choice(reply: object) -> str:
    if field(reply, "error"):
        return "the endpoint returned an error"
    return "it was empty" if isinstance(reply, dict) else "it was not a chat completion"
