"""Chat engines: the question is what the user said, however it was condensed."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine.types import ChatMode, StreamingAgentChatResponse
from llama_index.core.memory import ChatMemoryBuffer

from rag_eval_hooks import Status
from tests.matrix.llama_index.kit import (
    QUERY_SPANS,
    QUESTION,
    QUESTIONS,
    WORDS,
    Scripted,
    case,
    index,
    prompt_text,
    reader,
    shape,
    told,
)
from tests.matrix.world import World
from tests.waiting import until

__all__ = ["SHAPES"]

GROUP = "chat engines"
WAYS = ("chat", "achat", "stream_chat", "astream_chat")
LEFT_TO_USERS = (
    None
    if hasattr(StreamingAgentChatResponse, "write_response_to_history_thread")
    else "this version leaves the reading of the stream to the user"
)
HISTORY = [
    ChatMessage(role="user", content=WORDS("Do you know the timetable?")),
    ChatMessage(role="assistant", content=told("I know it by heart.")),
]


def llm() -> Scripted:
    """Condenses by repeating the question, else reads."""
    inner = reader().reply

    def reply(messages: Sequence[ChatMessage]) -> str:
        prompt = prompt_text(messages)
        if "standalone question" in prompt.lower():
            return next(question for question in QUESTIONS if question in prompt)
        return str(inner(messages))

    return Scripted(reply=reply)


def engine(mode: str) -> Any:
    """A chat engine with a past."""
    return index().as_chat_engine(
        chat_mode=ChatMode(mode),
        llm=llm(),
        similarity_top_k=2,
        memory=ChatMemoryBuffer.from_defaults(chat_history=list(HISTORY), token_limit=3000),
    )


def unread(world: World, way: str) -> None:
    """A stream that nobody reads: LlamaIndex reads it itself, so the answer is whole."""
    response = engine("context").stream_chat(QUESTION)
    # LlamaIndex's thread reads the stream; its end reaches us some time after `is_done`.
    until(lambda: response.is_done and world.evals.stats().offered)
    assert response.response


async def broken(world: World, way: str) -> None:
    """A stream that breaks in its middle."""
    chat = index().as_chat_engine(
        chat_mode=ChatMode.CONTEXT, llm=reader(breaks_after=3), similarity_top_k=2
    )
    response = await chat.astream_chat(QUESTION)
    with contextlib.suppress(ConnectionError):
        "".join([token async for token in response.async_response_gen()])


SHAPES = (
    shape(GROUP, "context", lambda s: engine("context"), ways=WAYS),
    shape(
        GROUP,
        "condense_question",
        lambda s: engine("condense_question"),
        ways=WAYS,
        spans=("chat scripted", *QUERY_SPANS),
    ),
    shape(
        GROUP,
        "condense_plus_context",
        lambda s: engine("condense_plus_context"),
        ways=WAYS,
        spans=("chat scripted", *QUERY_SPANS),
    ),
    case(GROUP, "stream not read", unread, missing=LEFT_TO_USERS, ways=("stream_chat",)),
    case(
        GROUP,
        "stream that breaks",
        broken,
        ways=("astream_chat",),
        answer=lambda q: None,
        status=Status.ERROR,
    ),
)
