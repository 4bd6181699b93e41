"""Chat engines: the question is what the user said, however it was condensed."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine.types import ChatMode, StreamingAgentChatResponse
from llama_index.core.memory import ChatMemoryBuffer

from rag_eval_hooks import Status
from tests.matrix.llama_index import kit
from tests.matrix.world import World
from tests.waiting import until

GROUP = "chat engines"
WAYS = ("chat", "achat", "stream_chat", "astream_chat")
LEFT_TO_USERS = (
    None
    if hasattr(StreamingAgentChatResponse, "write_response_to_history_thread")
    else "this version leaves the reading of the stream to the user"
)
HISTORY = [
    ChatMessage(role="user", content=kit.WORDS("Do you know the timetable?")),
    ChatMessage(role="assistant", content=kit.told("I know it by heart.")),
]


def llm() -> kit.Scripted:
    inner = kit.reader().reply

    def reply(messages: Sequence[ChatMessage]) -> str:
        prompt = kit.prompt_text(messages)
        if "standalone question" in prompt.lower():
            return next(question for question in kit.QUESTIONS if question in prompt)
        return str(inner(messages))

    return kit.Scripted(reply=reply)


def engine(mode: str) -> Any:
    return kit.index().as_chat_engine(
        chat_mode=ChatMode(mode),
        llm=llm(),
        similarity_top_k=2,
        memory=ChatMemoryBuffer.from_defaults(chat_history=list(HISTORY), token_limit=3000),
    )


def unread(world: World, way: str) -> None:
    """A stream that nobody reads: LlamaIndex reads it itself, so the answer is whole."""
    response = engine("context").stream_chat(kit.QUESTION)
    # LlamaIndex's thread reads the stream; its end reaches us some time after `is_done`.
    until(lambda: response.is_done and (world.evals.stats().offered or not world.captures))
    assert response.response


async def broken(world: World, way: str) -> None:
    chat = kit.index().as_chat_engine(
        chat_mode=ChatMode.CONTEXT, llm=kit.reader(breaks_after=3), similarity_top_k=2
    )
    response = await chat.astream_chat(kit.QUESTION)
    with contextlib.suppress(ConnectionError):
        "".join([token async for token in response.async_response_gen()])


SHAPES = (
    kit.shape(GROUP, "context", lambda s: engine("context"), ways=WAYS),
    kit.shape(
        GROUP,
        "condense_question",
        lambda s: engine("condense_question"),
        ways=WAYS,
        spans=("chat scripted", *kit.QUERY_SPANS),
    ),
    kit.shape(
        GROUP,
        "condense_plus_context",
        lambda s: engine("condense_plus_context"),
        ways=WAYS,
        spans=("chat scripted", *kit.QUERY_SPANS),
    ),
    kit.case(GROUP, "stream not read", unread, missing=LEFT_TO_USERS, ways=("stream_chat",)),
    kit.case(
        GROUP,
        "stream that breaks",
        broken,
        ways=("astream_chat",),
        answer=lambda q: None,
        status=Status.ERROR,
    ),
)
