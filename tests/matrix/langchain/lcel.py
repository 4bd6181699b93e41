"""Chains of the expression language."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import (
    Runnable,
    RunnableGenerator,
    RunnableLambda,
    RunnablePassthrough,
)
from pydantic import create_model

from rag_eval_hooks import Status
from tests.matrix.langchain import kit
from tests.matrix.world import World

GROUP = "LCEL"
MODEL_ONLY = ("chat scripted",)


FIELDS: dict[str, Any] = {kit.SAID: (str, ...), "certain": (bool, ...)}
Reply = create_model("Reply", **FIELDS)
"""A structured answer."""


def given_documents(question: str) -> dict[str, Any]:
    return {kit.FOUND: [Document(text) for text in kit.top(question)], kit.ASKED: question}


def reranked_texts(question: str) -> list[str]:
    found = kit.top(question, 5)
    return [found[3], found[1]]


def summary(messages: list[BaseMessage]) -> str:
    return f"Short for: {kit.prompt_text(messages)[:50]}."


def counted(messages: list[BaseMessage]) -> str:
    prompt = kit.prompt_text(messages)
    asked = prompt.rpartition("Question: ")[2]
    return kit.answer_to(asked, [text for text in kit.PASSAGES if text[:50] in prompt])


def refined(question: str) -> str:
    text = f"On {question[:12]}"
    for passage in kit.top(question, 3):
        text = f"{text} It is also said: {passage[:30]}."
    return text


def far(documents: Any) -> list[Any]:
    return [d for d in documents if d.metadata["page"] > len(kit.PASSAGES)]


def far_joined(documents: Any) -> str:
    return kit.joined(far(documents))


def shouted(question: str) -> str:
    return kit.answer_to(question, kit.top(question)).upper()


THREE_AND_ONE = ("chat scripted",) * 4 + ("retrieval InMemoryVectorStore",)


@kit.shape(GROUP, "retriever, prompt, model, parser")
def plain(k: int = 2, model: Runnable[Any, Any] | None = None) -> Runnable[Any, str]:
    return kit.answering(kit.base(k), model)


@kit.shape(GROUP, "RunnableGenerator", answer=shouted)
def generated() -> Any:
    def shout(parts: Iterator[str]) -> Iterator[str]:
        for part in parts:
            yield part.upper()

    async def ashout(parts: AsyncIterator[str]) -> AsyncIterator[str]:
        async for part in parts:
            yield part.upper()

    return plain() | RunnableGenerator(shout, ashout)


@kit.shape(
    GROUP,
    "answer as structured output",
    answer=lambda question: kit.as_reply(kit.answer_to(question, kit.top(question)), certain=True),
)
def structured() -> Any:
    inner = kit.reader()

    def reply(messages: list[BaseMessage]) -> AIMessage:
        text = str(inner.reply(messages))
        call = {"name": "Reply", "args": {kit.SAID: text, "certain": True}, "id": "c1"}
        return AIMessage(content="", tool_calls=[{**call, "type": "tool_call"}])

    retriever = kit.base()
    inputs: Any = {kit.SHOWN: retriever | kit.joined, kit.ASKED: RunnablePassthrough()}
    return inputs | kit.PROMPT | kit.Chat(reply=reply).with_structured_output(Reply)


@kit.shape(GROUP, "documents given by the caller", inputs=given_documents, spans=MODEL_ONLY)
def of_the_caller() -> Any:
    context = RunnablePassthrough.assign(**{kit.SHOWN: lambda given: kit.joined(given[kit.FOUND])})
    return context | kit.PROMPT | kit.reader() | StrOutputParser()


@kit.shape(GROUP, "all in one plain function", spans=MODEL_ONLY)
def one_function() -> Any:
    found, chain = kit.store(), kit.PROMPT | kit.reader() | StrOutputParser()

    def ask(question: str) -> dict[str, Any]:
        documents = found.similarity_search(question, k=2)
        text = chain.invoke({kit.SHOWN: kit.joined(documents), kit.ASKED: question})
        return {kit.SAID: text, "sources": documents}

    return RunnableLambda(ask)


@kit.shape(GROUP, "rerank in a lambda", contexts=reranked_texts)
def reranked() -> Any:
    retriever = kit.base(5)
    best: Any = RunnableLambda(lambda documents: [documents[3], documents[1]])
    inputs: Any = {kit.SHOWN: retriever | best | kit.joined, kit.ASKED: RunnablePassthrough()}
    return inputs | kit.PROMPT | kit.reader() | StrOutputParser()


@kit.shape(GROUP, "a formatter that hands on no document", contexts=lambda question: [])
def none_written() -> Any:
    retriever = kit.base()
    given = {kit.SHOWN: retriever | far_joined, kit.ASKED: RunnablePassthrough()}
    return given | kit.PROMPT | kit.reader() | StrOutputParser()


@kit.shape(GROUP, "map-reduce", contexts=lambda question: kit.top(question, 3), spans=THREE_AND_ONE)
def map_reduce() -> Any:
    retriever = kit.base(3)
    shorten: Any = RunnableLambda(lambda document: document.page_content) | kit.Chat(reply=summary)
    context = retriever | shorten.map() | (lambda found: "\n".join(m.content for m in found))
    inputs: Any = {kit.SHOWN: context, kit.ASKED: RunnablePassthrough()}
    counting = kit.Chat(reply=counted)
    return inputs | kit.PROMPT | counting | StrOutputParser()


@kit.shape(
    GROUP,
    "refine",
    contexts=lambda question: kit.top(question, 3),
    answer=refined,
    spans=THREE_AND_ONE[1:],
)
def refine() -> Any:
    retriever = kit.base(3)

    def reply(messages: list[BaseMessage]) -> str:
        before, _, passage = kit.prompt_text(messages).partition("\nNow add: ")
        return f"{before} It is also said: {passage[:30]}."

    model = kit.Chat(reply=reply)

    def ask(question: str) -> str:
        text = f"On {question[:12]}"
        for document in retriever.invoke(question):
            text = str(model.invoke(f"{text}\nNow add: {document.page_content}").content)
        return text

    return RunnableLambda(ask)


ONE_FAILS = [kit.due(), kit.due(kit.QUESTIONS[1], answer=None, status=Status.ERROR)]


@kit.scene(GROUP, "batch with one failing", ONE_FAILS, ("batch", "abatch"))
def one_failing(world: World, way: str) -> None:
    def fails(text: str) -> str:
        if text == kit.answer_to(second, kit.top(second)):
            raise LookupError("no tickets")
        return text

    second, config = kit.QUESTIONS[1], kit.config(world)
    chain, asked = plain() | RunnableLambda(fails), list(kit.QUESTIONS)
    if way == "batch":
        out = chain.batch(asked, config, return_exceptions=True)
    else:
        out = asyncio.run(chain.abatch(asked, config, return_exceptions=True))
    assert [isinstance(one, LookupError) for one in out] == [False, True]
