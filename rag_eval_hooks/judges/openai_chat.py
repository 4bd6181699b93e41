"""One model behind an OpenAI-compatible chat endpoint."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rag_eval_hooks.judges.calls.meter import Meter
from rag_eval_hooks.judges.chat import Completion
from rag_eval_hooks.judges.client_options import ClientOptions
from rag_eval_hooks.judges.openai_client import Endpoint, RequestRefusedError
from rag_eval_hooks.judges.structured_output import Rung, is_about_shape, only_text
from rag_eval_hooks.prompts import Prompt, ReplyError

__all__ = ["OpenAIChat"]


@dataclass(frozen=True, slots=True)
class _Dialect:
    """What of the protocol an endpoint takes for a model."""

    rung: Rung = Rung.JSON_SCHEMA
    temperature: bool = True

    def without(self, refused: RequestRefusedError) -> _Dialect | None:
        """The dialect without what the complaint is about, or None if that is something else."""
        complaint = refused.complaint
        if self.temperature and "temperature" in complaint and refused.status != 404:
            return replace(self, temperature=False)
        if self.rung is not Rung.TEXT and is_about_shape(complaint):
            return replace(self, rung=Rung(self.rung + 1))
        return None

    def meet(self, other: _Dialect) -> _Dialect:
        """What both take: calls that learned at the same time do not add up their steps."""
        return _Dialect(max(self.rung, other.rung), self.temperature and other.temperature)


class OpenAIChat:
    """One model behind `/chat/completions`.

    The shape of the reply is asked for by JSON Schema, else by a tool call, else by JSON mode,
    else by the prompt alone, whichever the endpoint takes; this, and whether it takes a
    temperature, is learned from its refusals, once.

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

    @property
    def rung(self) -> Rung:
        """How the shape of a reply is asked for, as far as was learned."""
        return self._dialect.rung

    async def complete(self, prompt: Prompt) -> Completion:
        """The text of the model's reply; `usage` counts every request that was sent for it.

        Raises:
            ReplyError: It was cut off at the token limit, refused, filtered or empty.
            JudgeTimeout: It did not come in time, retries included.
            JudgeError: The endpoint cannot be reached or refused the request.
        """
        meter = Meter(prompt)
        with meter.charging():
            reply = await self._reply(prompt, meter)
            used = _part(reply, "usage")
            meter.told(_part(used, "prompt_tokens"), _part(used, "completion_tokens"))
            return Completion(_text(reply), meter.usage)

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._endpoint.aclose()

    async def _reply(self, prompt: Prompt, meter: Meter) -> Any:
        dialect = self._dialect
        while True:
            try:
                reply = await self._create(prompt, dialect, meter)
            except RequestRefusedError as refused:
                lower = dialect.without(refused)
                if lower is None:
                    raise
                dialect = lower
            else:
                self._dialect = self._dialect.meet(dialect)
                return reply

    async def _create(self, prompt: Prompt, dialect: _Dialect, meter: Meter) -> Any:
        body: dict[str, Any] = {"model": self._model, **_asking(prompt, dialect.rung)}
        if dialect.temperature:
            body["temperature"] = self._temperature
        return await self._endpoint.post("/chat/completions", body, meter)


def _asking(prompt: Prompt, rung: Rung) -> dict[str, Any]:
    user = prompt.user if rung is Rung.JSON_SCHEMA else prompt.user_with_shape
    system = {"role": "system", "content": prompt.system}
    return {"messages": [system, {"role": "user", "content": user}], **_shape(prompt, rung)}


def _shape(prompt: Prompt, rung: Rung) -> dict[str, Any]:
    """What of the request asks for the shape."""
    if rung is Rung.JSON_SCHEMA:
        schema = {"name": prompt.name, "strict": True, "schema": prompt.schema}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    if rung is Rung.TOOL:
        function = {"name": prompt.name, "parameters": prompt.schema}
        choice = {"type": "function", "function": {"name": prompt.name}}
        return {"tools": [{"type": "function", "function": function}], "tool_choice": choice}
    return {"response_format": {"type": "json_object"}} if rung is Rung.JSON_OBJECT else {}


def _text(completion: Any) -> str:
    """The reply's text, or the arguments of its tool call.

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


def _part(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None
