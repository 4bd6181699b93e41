"""`LangChainJudge`, which uses a LangChain chat model as the judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from langchain_core.language_models import BaseChatModel
from langchain_core.load import dumps
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.prompts import BasePromptTemplate
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig, RunnableSequence
from langsmith.run_helpers import tracing_context

from rag_eval_hooks.calls import Caller
from rag_eval_hooks.capture.copied import content_text
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.judges.chat import REASONS, ChatAdapter, ModelAdapter, OutputMode, reply_text
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.judges.model_calls import CallLimits, Meter
from rag_eval_hooks.prompts.prompt import Prompt, ReplyError

_Model: TypeAlias = Runnable[Any, Any]
_METHODS: Final[Mapping[OutputMode, str]] = {
    OutputMode.JSON_SCHEMA: "json_schema",
    OutputMode.TOOL: "function_calling",
    OutputMode.JSON_OBJECT: "json_mode",
}
_UNSEEN: Final[RunnableConfig] = {"callbacks": []}


class LangChainChat(ChatAdapter):
    # The copy of the model has no callbacks and no cache. `with_structured_output` asks the model
    # for JSON Schema, else for a tool call, else for JSON mode, else for text.
    def __init__(self, model: _Model, limits: CallLimits) -> None:
        self._model = model
        modes: tuple[OutputMode, ...] = (OutputMode.TEXT,)
        if isinstance(model, BaseChatModel):
            quiet = {"callbacks": None, "verbose": False, "cache": False}
            self._model, modes = model.model_copy(update=quiet), tuple(OutputMode)
        caller = Caller(f"langchain:{_model_name(model)}")
        # Use `dumps`, because a model's repr may contain secrets.
        super().__init__(caller, modes, limits, scope=dumps(self._model))

    async def ask(
        self, prompt: Prompt, mode: OutputMode, temperature: float | None, meter: Meter
    ) -> str:
        model = self._model
        if mode is not OutputMode.TEXT and isinstance(model, BaseChatModel):
            try:
                model = _bound(model, prompt, mode)
            except (TypeError, ValueError, AttributeError, ImportError):
                raise NotImplementedError(mode) from None
        user = prompt.user if mode is OutputMode.JSON_SCHEMA else prompt.user_with_shape
        messages = [SystemMessage(prompt.system), HumanMessage(user)]
        reply = await unseen(self, model, messages, meter, blocks=_blocks(self._model))
        usage = getattr(reply, "usage_metadata", None) or {}
        meter.replied(usage.get("input_tokens"), usage.get("output_tokens"))
        return _text_of(reply)


async def unseen(
    adapter: ModelAdapter, model: _Model, request: Any, meter: Meter, *, blocks: bool
) -> Any:
    # Disable LangSmith for these calls, even if environment variables enable it.
    with tracing_context(enabled=False):
        async with meter.sending(adapter.timeout):
            if blocks:
                # LangChain would call the model in the event loop's default pool.
                return await adapter.threads.run(lambda: model.invoke(request, _UNSEEN))
            return await model.ainvoke(request, _UNSEEN)


class LangChainJudge(LLMJudge):
    """Uses a LangChain chat model as the judge.

    The application's callbacks do not see the judge's calls. Only the global handlers of
    LangChain's debug mode do.

    Args:
        model: A chat model, or a runnable that accepts messages and returns a message or a text.
            The judge uses structured output only with a chat model. The judge does not change the
            model's settings.
        **options: Fields of `CallLimits`, such as `timeout`, and keywords of `LLMJudge`. To retry
            failed calls, configure the model itself.

    Raises:
        ConfigError: The model is not a runnable, or a value is invalid.
    """

    def __init__(self, model: _Model, **options: Any) -> None:
        if not isinstance(model, Runnable):
            raise ConfigError(
                "judge", type(model).__name__, "a chat model of LangChain, such as ChatOpenAI(...)"
            )
        first = model.first if isinstance(model, RunnableSequence) else None
        if isinstance(first, BasePromptTemplate) and len(first.input_variables) != 1:
            got = f"a sequence that starts with {type(first).__name__}"
            raise ConfigError("judge", got, "the chat model itself, without the prompt")
        limits, others = CallLimits.split(options)
        super().__init__(LangChainChat(model, limits), **others)


def _model_name(model: _Model) -> str:
    inner = model.bound if isinstance(model, RunnableBinding) else model
    names = (getattr(inner, name, None) for name in ("model_name", "model", "model_id"))
    found = next((name for name in names if isinstance(name, str) and name), None)
    return found or type(inner).__name__


def _blocks(model: _Model) -> bool:
    # LangChain would run a model without an async call in the event loop's default pool.
    if not isinstance(model, BaseChatModel):
        return False
    kind = type(model)
    return kind._agenerate is BaseChatModel._agenerate and kind._astream is BaseChatModel._astream


def _bound(model: BaseChatModel, prompt: Prompt, mode: OutputMode) -> _Model:
    # Use only the bound model, because our own parser reads the replies.
    shape = _without_numbers(prompt.schema) if mode is OutputMode.TOOL else prompt.schema
    schema = {"title": prompt.name, "description": "The reply.", **shape}
    keywords: dict[str, Any] = {"method": _METHODS[mode]}
    # OpenAI models need `strict`; other models warn about the keyword.
    ours = any(kind.__module__.startswith("langchain_openai.") for kind in type(model).__mro__)
    if mode is OutputMode.JSON_SCHEMA and ours:
        keywords["strict"] = True
    try:
        chain = model.with_structured_output(schema, **keywords)
    except (TypeError, ValueError):
        if mode is not OutputMode.TOOL:
            raise
        # A model whose signature has no `method` makes a tool call.
        chain = model.with_structured_output(schema)
    first = chain.first if isinstance(chain, RunnableSequence) else None
    if not isinstance(first, RunnableBinding):
        raise NotImplementedError(mode)
    return first


def _without_numbers(schema: Any) -> Any:
    # Gemini's tools reject enums of numbers. The prompt's text lists the numbers.
    if isinstance(schema, list):
        return [_without_numbers(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        name: _without_numbers(part)
        for name, part in schema.items()
        if name != "enum" or isinstance(part[0], str)
    }


def _text_of(message: Any) -> str:
    if isinstance(message, str):
        return reply_text(message)
    if not isinstance(message, BaseMessage):
        raise ReplyError("the reply was empty")
    if message.additional_kwargs.get("refusal"):
        raise ReplyError("the reply was a refusal")
    # If LangChain could not parse the arguments, use the original text.
    kinds = ("tool_calls", "invalid_tool_calls")
    calls = [call["args"] for kind in kinds for call in getattr(message, kind, ())]
    reasons = map(message.response_metadata.get, REASONS)
    return reply_text(content_text(message.content), calls, reasons)
