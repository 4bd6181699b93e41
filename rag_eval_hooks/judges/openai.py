"""Judge over any OpenAI-compatible chat endpoint: OpenAI, Azure, vLLM, Ollama, gateways."""

from __future__ import annotations

from typing import Any, Unpack

from rag_eval_hooks.calls import Caller
from rag_eval_hooks.judges.calls.requests import Meter
from rag_eval_hooks.judges.chat import ChatAdapter, OutputMode, Reply, Send, only_text
from rag_eval_hooks.judges.endpoint import ClientOptions, Endpoint, EndpointKeywords
from rag_eval_hooks.judges.llm import LLMJudge, LLMOptions
from rag_eval_hooks.prompts import Prompt, ReplyError

__all__ = ["OpenAIChat", "OpenAIJudge"]


class _Keywords(EndpointKeywords, LLMOptions, total=False):
    """Keywords of `OpenAIJudge` besides its temperature."""


class OpenAIJudge(LLMJudge):
    """`LLMJudge` over an OpenAI-compatible endpoint.

    Args:
        model: The endpoint's name for the model.
        temperature: Sampling temperature, or None to send none.
        **options: Fields of `ClientOptions`, such as `base_url`, `api_key` and `timeout`, and
            keywords of `LLMJudge`.

    Raises:
        ConfigError: A value cannot be used.
    """

    def __init__(
        self, model: str, *, temperature: float | None = 0.0, **options: Unpack[_Keywords]
    ) -> None:
        keywords: dict[str, Any] = {**options}
        client = ClientOptions.taken_from(keywords)
        super().__init__(OpenAIChat(model, client, temperature=temperature), **keywords)


class OpenAIChat(ChatAdapter):
    """One model behind `/chat/completions`."""

    _is_ours = True

    def __init__(
        self, model: str, options: ClientOptions, *, temperature: float | None = 0.0
    ) -> None:
        caller = Caller(f"openai:{model}", provider="openai")
        super().__init__(caller, tuple(OutputMode), options, temperature=temperature)
        self.memo_scope = f"{options.base_url} {temperature}"
        self._model = model
        self._endpoint = Endpoint(options)

    def __repr__(self) -> str:
        return f"OpenAIChat({self.name!r}, {self._endpoint!r})"

    @property
    def host(self) -> str:
        """Host and port of the endpoint."""
        return self._endpoint.host

    def prepare(self, prompt: Prompt, mode: OutputMode, temperature: float | None) -> Send:
        """Prepare a request for a chat completion."""
        user = prompt.user if mode is OutputMode.JSON_SCHEMA else prompt.user_with_shape
        messages = [
            {"role": "system", "content": prompt.system},
            {"role": "user", "content": user},
        ]
        body: dict[str, Any] = {
            "model": self._model,
            "messages": messages,
            **_output_fields(prompt, mode),
        }
        if temperature is not None:
            body["temperature"] = temperature
        self._endpoint.open()

        async def send(meter: Meter) -> Reply:
            return _reply(await self._endpoint.post("/chat/completions", body, meter))

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
        ReplyError: There is none. Of one that was cut off, the reader takes what is complete.
    """
    try:
        choice = completion["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        content = message.get("content")
        calls = [call["function"]["arguments"] for call in message.get("tool_calls") or ()]
    except (AttributeError, IndexError, KeyError, TypeError):
        raise ReplyError(_without_choice(completion)) from None
    if reason == "content_filter":
        raise ReplyError("it was cut off by a filter")
    if message.get("refusal"):
        raise ReplyError("it was a refusal")
    if isinstance(content, list):
        content = "".join(map(_written, content))
    if reason == "length" and not (content or calls):
        raise ReplyError("the token limit was reached before it began")
    return only_text(content, calls)


def _written(part: Any) -> str:
    """Return the text of one part of a content; what a model thinks is none."""
    text = _field(part, "text") if _field(part, "type") == "text" else None
    return text if isinstance(text, str) else ""


def _without_choice(completion: object) -> str:
    """Describe a reply without a message."""
    if _field(completion, "error"):
        return "it was an error of the endpoint"
    return "it was empty" if isinstance(completion, dict) else "it was no chat completion"


def _field(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None
