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

from tests.matrix.langchain import kit
from tests.matrix.shape import Expected, Shape
from tests.matrix.world import World

GROUP = "LCEL"
MODEL_ONLY = ("chat scripted",)


def plain(k: int = 2, model: Runnable[Any, Any] | None = None) -> Runnable[Any, str]:
    return kit.answering(kit.base(k), model)


def generated() -> Any:
    def shout(parts: Iterator[str]) -> Iterator[str]:
        for part in parts:
            yield part.upper()

    async def ashout(parts: AsyncIterator[str]) -> AsyncIterator[str]:
        async for part in parts:
            yield part.upper()

    return plain() | RunnableGenerator(shout, ashout)


FIELDS: dict[str, Any] = {kit.SAID: (str, ...), "certain": (bool, ...)}
Reply = create_model("Reply", **FIELDS)
"""A structured answer."""


def structured() -> Any:
    inner = kit.reader()

    def reply(messages: list[BaseMessage]) -> AIMessage:
        text = str(inner.reply(messages))
        call = {"name": "Reply", "args": {kit.SAID: text, "certain": True}, "id": "c1"}
        return AIMessage(content="", tool_calls=[{**call, "type": "tool_call"}])

    retriever = kit.base()
    inputs: Any = {kit.SHOWN: retriever | kit.joined, kit.ASKED: RunnablePassthrough()}
    return inputs | kit.PROMPT | kit.Chat(reply=reply).with_structured_output(Reply)


def given_documents(question: str) -> dict[str, Any]:
    return {kit.FOUND: [Document(text) for text in kit.top(question)], kit.ASKED: question}


def of_the_caller() -> Any:
    context = RunnablePassthrough.assign(**{kit.SHOWN: lambda given: kit.joined(given[kit.FOUND])})
    return context | kit.PROMPT | kit.reader() | StrOutputParser()


def one_function() -> Any:
    found, chain = kit.store(), kit.PROMPT | kit.reader() | StrOutputParser()

    def ask(question: str) -> dict[str, Any]:
        documents = found.similarity_search(question, k=2)
        text = chain.invoke({kit.SHOWN: kit.joined(documents), kit.ASKED: question})
        return {kit.SAID: text, "sources": documents}

    return RunnableLambda(ask)


def reranked() -> Any:
    retriever = kit.base(5)
    best: Any = RunnableLambda(lambda documents: [documents[3], documents[1]])
    inputs: Any = {kit.SHOWN: retriever | best | kit.joined, kit.ASKED: RunnablePassthrough()}
    return inputs | kit.PROMPT | kit.reader() | StrOutputParser()


def reranked_texts(question: str) -> list[str]:
    found = kit.top(question, 5)
    return [found[3], found[1]]


def summary(messages: list[BaseMessage]) -> str:
    return f"Short for: {kit.prompt_text(messages)[:50]}."


def map_reduce() -> Any:
    retriever = kit.base(3)
    shorten: Any = RunnableLambda(lambda document: document.page_content) | kit.Chat(reply=summary)
    context = retriever | shorten.map() | (lambda found: "\n".join(m.content for m in found))
    inputs: Any = {kit.SHOWN: context, kit.ASKED: RunnablePassthrough()}
    counting = kit.Chat(reply=counted)
    return inputs | kit.PROMPT | counting | StrOutputParser()


def counted(messages: list[BaseMessage]) -> str:
    prompt = kit.prompt_text(messages)
    asked = prompt.rpartition("Question: ")[2]
    return kit.answer_to(asked, [text for text in kit.PASSAGES if text[:50] in prompt])


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


def refined(question: str) -> str:
    text = f"On {question[:12]}"
    for passage in kit.top(question, 3):
        text = f"{text} It is also said: {passage[:30]}."
    return text


def one_failing() -> Shape:
    def fails(text: str) -> str:
        if text == kit.answer_to(kit.QUESTIONS[1], kit.top(kit.QUESTIONS[1])):
            raise LookupError("no tickets")
        return text

    def run(world: World, way: str) -> None:
        chain = plain() | RunnableLambda(fails)
        config = kit.config(world)
        if way == "batch":
            out = chain.batch(list(kit.QUESTIONS), config, return_exceptions=True)
        else:
            out = asyncio.run(chain.abatch(list(kit.QUESTIONS), config, return_exceptions=True))
        assert [isinstance(one, LookupError) for one in out] == [False, True]

    def expected(way: str) -> list[Expected]:
        from rag_eval_hooks import Status

        spans = ("chat scripted", "retrieval InMemoryVectorStore")
        good, bad = ((q, kit.top(q)) for q in kit.QUESTIONS)
        return [
            Expected(question=good[0], contexts=good[1], answer=kit.answer_to(*good), spans=spans),
            Expected(
                question=bad[0], contexts=bad[1], answer=None, status=Status.ERROR, spans=spans
            ),
        ]

    ways = ("batch", "abatch")
    return Shape(group=GROUP, name="batch with one failing", ways=ways, run=run, expected=expected)


def far(documents: Any) -> list[Any]:
    return [d for d in documents if d.metadata["page"] > len(kit.PASSAGES)]


def far_joined(documents: Any) -> str:
    return kit.joined(far(documents))


def none_written() -> Any:
    retriever = kit.base()
    given = {kit.SHOWN: retriever | far_joined, kit.ASKED: RunnablePassthrough()}
    return given | kit.PROMPT | kit.reader() | StrOutputParser()


def shouted(question: str) -> str:
    return kit.answer_to(question, kit.top(question)).upper()


THREE_AND_ONE = ("chat scripted",) * 4 + ("retrieval InMemoryVectorStore",)

SHAPES = (
    kit.shape(GROUP, "retriever, prompt, model, parser", plain),
    kit.shape(GROUP, "RunnableGenerator", generated, answer=shouted),
    kit.shape(
        GROUP,
        "answer as structured output",
        structured,
        answer=lambda question: kit.as_reply(
            kit.answer_to(question, kit.top(question)), certain=True
        ),
    ),
    kit.shape(
        GROUP,
        "documents given by the caller",
        of_the_caller,
        inputs=given_documents,
        spans=MODEL_ONLY,
    ),
    kit.shape(GROUP, "all in one plain function", one_function, spans=MODEL_ONLY),
    kit.shape(GROUP, "rerank in a lambda", reranked, contexts=reranked_texts),
    kit.shape(
        GROUP, "a formatter that hands on no document", none_written, contexts=lambda question: []
    ),
    kit.shape(
        GROUP,
        "map-reduce",
        map_reduce,
        contexts=lambda question: kit.top(question, 3),
        spans=THREE_AND_ONE,
    ),
    kit.shape(
        GROUP,
        "refine",
        refine,
        contexts=lambda question: kit.top(question, 3),
        answer=refined,
        spans=THREE_AND_ONE[1:],
    ),
    one_failing(),
)
