"""A scripted LLM of LlamaIndex."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
)
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection

PIECE = 2
"""Characters of a streamed piece: the shortest answer has more than three."""

Reply = Callable[[Sequence[ChatMessage]], "ChatMessage | str"]


class Scripted(FunctionCallingLLM):
    reply: Reply
    model: str = "scripted"
    delay: float = 0.0
    breaks_after: int | None = None
    begun: int = 0

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(
            model_name=self.model, is_chat_model=True, is_function_calling_model=True
        )

    @llm_chat_callback()
    def chat(self, messages: Any, **kwargs: Any) -> Any:
        return ChatResponse(message=self._message(messages), raw={"id": "reply-1"})

    @llm_chat_callback()
    async def achat(self, messages: Any, **kwargs: Any) -> Any:
        self.begun += 1
        await asyncio.sleep(self.delay)
        return ChatResponse(message=self._message(messages), raw={"id": "reply-1"})

    @llm_chat_callback()
    def stream_chat(self, messages: Any, **kwargs: Any) -> Any:
        return self._pieces(self._message(messages))

    @llm_chat_callback()
    async def astream_chat(self, messages: Any, **kwargs: Any) -> Any:
        self.begun += 1
        # As in `achat`: a delay that the reply sets is for the next call.
        delay, message = self.delay, self._message(messages)

        async def pieces() -> Any:
            for part in self._pieces(message):
                await asyncio.sleep(delay)
                yield part

        return pieces()

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        return CompletionResponse(text=self._text(prompt))

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        await asyncio.sleep(self.delay)
        return CompletionResponse(text=self._text(prompt))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError

    @llm_completion_callback()
    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _prepare_chat_with_tools(
        self, tools: Any, user_msg: Any = None, chat_history: Any = None, *_: Any, **__: Any
    ) -> dict[str, Any]:
        asked = (
            ChatMessage(role="user", content=user_msg) if isinstance(user_msg, str) else user_msg
        )
        return {"messages": [*(chat_history or ()), *([] if asked is None else [asked])]}

    def get_tool_calls_from_response(self, response: Any, *_: Any, **__: Any) -> list[Any]:
        calls = response.message.additional_kwargs.get("tool_calls", [])
        return [ToolSelection(**made) for made in calls]

    def _text(self, prompt: str) -> str:
        return self._message([ChatMessage(role="user", content=prompt)]).content or ""

    def _message(self, messages: Sequence[ChatMessage]) -> ChatMessage:
        told = self.reply(messages)
        return ChatMessage(role="assistant", content=told) if isinstance(told, str) else told

    def _pieces(self, message: ChatMessage) -> Iterator[ChatResponse]:
        text, more = message.content or "", message.additional_kwargs
        # What calls tools says nothing, in one piece.
        for n, at in enumerate(range(0, len(text) or 1, PIECE)):
            if n == self.breaks_after:
                raise ConnectionError("the line is dead")
            said = text[: at + PIECE]
            part = ChatMessage(role="assistant", content=said, additional_kwargs=more)
            yield ChatResponse(message=part, delta=text[at : at + PIECE])


def prompt_text(messages: Sequence[ChatMessage]) -> str:
    return "\n".join(message.content or "" for message in messages)


def pick(tool: str, **arguments: Any) -> ChatMessage:
    made = {"tool_id": f"call-{tool}", "tool_name": tool, "tool_kwargs": arguments}
    return ChatMessage(role="assistant", content="", additional_kwargs={"tool_calls": [made]})
