"""`LlamaIndexJudge`, which uses a LlamaIndex LLM as the judge."""

from __future__ import annotations

import inspect
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import LLM, CustomLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import BaseTool, ToolMetadata, ToolOutput

from rag_eval_hooks.calls import Caller
from rag_eval_hooks.capture.attributes import INPUT_TOKENS, OUTPUT_TOKENS, field, first
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.judges.chat import REASONS, ChatAdapter, OutputMode, reply_text
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.judges.model_calls import CallLimits, Meter
from rag_eval_hooks.prompts.prompt import Prompt


class LlamaIndexChat(ChatAdapter):
    # LlamaIndex's structured LLMs return parsed objects, without the reply's text and token counts.
    # We therefore ask an LLM with function calls for a tool call, and any other LLM for text.
    def __init__(self, llm: LLM, limits: CallLimits) -> None:
        self._llm = llm.model_copy(update={"callback_manager": CallbackManager([])})
        # A synchronous LLM would block the event loop. LlamaIndex may wrap methods, so unwrap them.
        self._blocks = inspect.unwrap(type(llm).achat) is inspect.unwrap(CustomLLM.achat)
        modes = [OutputMode.TEXT]
        if isinstance(llm, FunctionCallingLLM) and llm.metadata.is_function_calling_model:
            modes.insert(0, OutputMode.TOOL)
        name = llm.metadata.model_name
        caller = Caller(f"llama-index:{type(llm).__name__ if name in ('', 'unknown') else name}")
        options = [f"{name}={value!r}" for name, value in llm if name != "callback_manager"]
        super().__init__(caller, modes, limits, scope=" ".join(options))

    async def ask(
        self, prompt: Prompt, mode: OutputMode, temperature: float | None, meter: Meter
    ) -> str:
        llm, calls = self._llm, []
        messages = [
            ChatMessage(role=MessageRole.SYSTEM, content=prompt.system),
            ChatMessage(role=MessageRole.USER, content=prompt.user_with_shape),
        ]
        async with meter.sending(self.timeout):
            if mode is OutputMode.TOOL and isinstance(llm, FunctionCallingLLM):
                response = await _with_tool(llm, _Shape(prompt), messages)
                calls = _arguments(llm, response)
            elif self._blocks:
                response = await self.threads.run(lambda: llm.chat(messages))
            else:
                response = await llm.achat(messages)
        holders = [response.additional_kwargs, response.raw, field(response.raw, "usage")]
        meter.replied(first(holders, INPUT_TOKENS), first(holders, OUTPUT_TOKENS))
        choices = field(response.raw, "choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        ends = [choice, response.raw, response.additional_kwargs]
        reason = first([*ends, response.message.additional_kwargs], REASONS)
        return reply_text(response.message.content, calls, [reason])


class LlamaIndexJudge(LLMJudge):
    """Uses a LlamaIndex LLM as the judge.

    The application's callback managers do not see the judge's calls. Global instrumentation
    handlers of LlamaIndex do.

    Args:
        llm: The LLM. The judge does not change the LLM's temperature or other settings.
        **options: Fields of `CallLimits`, such as `timeout`, and keywords of `LLMJudge`. To retry
            failed calls, configure the LLM itself.

    Raises:
        ConfigError: The object is not a LlamaIndex LLM, or a value is invalid.
    """

    def __init__(self, llm: LLM, **options: Any) -> None:
        if not isinstance(llm, LLM):
            raise ConfigError(
                "judge", type(llm).__name__, "an LLM of LlamaIndex, such as OpenAI(model=...)"
            )
        limits, others = CallLimits.split(options)
        super().__init__(LlamaIndexChat(llm, limits), **others)


class _Shape(BaseTool):
    # Describes a reply's format as a tool. The tool is never run.
    def __init__(self, prompt: Prompt) -> None:
        self._metadata = ToolMetadata(
            description="Takes the reply.", name=prompt.name, fn_schema=prompt.model
        )

    @property
    def metadata(self) -> ToolMetadata:
        return self._metadata

    def __call__(self, input: Any) -> ToolOutput:
        raise NotImplementedError


async def _with_tool(
    llm: FunctionCallingLLM, tool: BaseTool, messages: list[ChatMessage]
) -> ChatResponse:
    # Older versions cannot require the tool call.
    can_require = "tool_required" in inspect.signature(llm.achat_with_tools).parameters
    options: dict[str, Any] = {"tool_required": True} if can_require else {}
    return await llm.achat_with_tools([tool], chat_history=messages, **options)


def _arguments(llm: FunctionCallingLLM, response: ChatResponse) -> list[object]:
    # Old versions have no blocks.
    parts = getattr(response.message, "blocks", ())
    blocks = [getattr(part, "tool_kwargs", None) for part in parts]
    sent = [block for block in blocks if block is not None]
    calls = llm.get_tool_calls_from_response(response, error_on_no_tool_call=False)
    return sent or [call.tool_kwargs for call in calls]
