"""Chat engines: the question is what the user said, however it was condensed."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.chat_engine.types import ChatMode, StreamingAgentChatResponse
from llama_index.core.memory import ChatMemoryBuffer

from rag_eval_hooks import Status
from tests.matrix.llama_index.kit import (
    CHAT_WAYS,
    QUERY_SPANS,
    TWO_CALLS,
    Asked,
    Corpus,
    Draw,
    Scripted,
    prompt_text,
    read,
    says,
    shape,
)
from tests.waiting import until

GROUP = "chat engines"
LEFT_TO_USERS = (
    None
    if hasattr(StreamingAgentChatResponse, "write_response_to_history_thread")
    else "this version leaves the reading of the stream to the user"
)


def chat_over(corpus: Corpus, mode: str, *answers: str, **more: Any) -> Any:
    draw, left = corpus.draw, list(answers)

    def reply(messages: Sequence[ChatMessage]) -> str:
        if "standalone question" in prompt_text(messages).lower():
            return corpus.question
        return left.pop(0) if len(left) > 1 else left[0]

    past = [ChatMessage(role="user", content=draw.question()), ChatMessage(content=draw.sentence())]
    return corpus.index.as_chat_engine(
        chat_mode=ChatMode(mode),
        llm=Scripted(reply=reply, **more),
        similarity_top_k=len(corpus.nodes),
        memory=ChatMemoryBuffer.from_defaults(chat_history=past, token_limit=3000),
    )


def in_mode(mode: str, spans: Sequence[str]) -> None:

    def asked(draw: Draw) -> Asked:
        corpus, answer = Corpus(draw), draw.sentence()
        return corpus.asked(chat_over(corpus, mode, answer), answer, spans=spans)

    shape(GROUP, *CHAT_WAYS, name=mode)(asked)


in_mode("context", QUERY_SPANS)
in_mode("condense_question", TWO_CALLS)
in_mode("condense_plus_context", TWO_CALLS)


@shape(GROUP, "achat")
def turns_of_one_chat(draw: Draw) -> Asked:
    corpus = Corpus(draw)
    questions, answers = [corpus.question, draw.question()], [draw.sentence(), draw.sentence()]
    engine = chat_over(corpus, "context", *answers)

    async def run() -> None:
        for question in questions:
            await engine.achat(question)

    second = Asked(run, questions[1], corpus.shown(questions[1]), answers[1], spans=QUERY_SPANS)
    return Asked(run, questions[0], corpus.shown(), answers[0], spans=QUERY_SPANS, also=[second])


@shape(GROUP, "stream_chat", missing=LEFT_TO_USERS)
def stream_that_nobody_reads(draw: Draw) -> Asked:
    """LlamaIndex reads it itself, so the answer is whole."""
    corpus, answer, world = Corpus(draw), draw.sentence(), draw.world

    def run() -> None:
        response = chat_over(corpus, "context", answer).stream_chat(corpus.question)
        # LlamaIndex's thread reads the stream; its end reaches us some time after `is_done`.
        until(lambda: response.is_done and (world.evals.stats().offered or not world.captures))
        assert response.response == answer

    return Asked(run, corpus.question, corpus.shown(), answer, spans=QUERY_SPANS)


@shape(GROUP, "astream_chat")
def stream_that_breaks(draw: Draw) -> Asked:
    corpus = Corpus(draw)
    chat = chat_over(corpus, "context", draw.sentence(), breaks_after=3)

    async def run() -> None:
        response = await chat.astream_chat(corpus.question)
        with contextlib.suppress(ConnectionError):
            await read(response)

    return Asked(run, corpus.question, corpus.shown(), None, Status.ERROR, QUERY_SPANS)


@shape(GROUP, "chat", "stream_chat")
def chat_without_retrieval(draw: Draw) -> Asked:
    engine = SimpleChatEngine.from_defaults(llm=says(draw.sentence()))
    return Asked(draw.call(engine, draw.question()))
