"""Chains of the expression language."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from operator import itemgetter
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import (
    Runnable,
    RunnableGenerator,
    RunnableLambda,
    RunnablePassthrough,
)
from pydantic import create_model

from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.matrix.langchain.kit import (
    ASKED,
    FOUND,
    PASSAGES,
    PROMPT,
    QUESTIONS,
    SAID,
    SHOWN,
    Chat,
    answer_to,
    as_reply,
    joined,
    prompt_text,
    reader,
    shape,
    store,
    top,
)
from tests.matrix.shape import Expected, Shape
from tests.matrix.world import World

__all__ = ["SHAPES", "plain"]

GROUP = "LCEL"
MODEL_ONLY = ("chat scripted",)


def plain(k: int = 2, model: Runnable[Any, Any] | None = None) -> Runnable[Any, str]:
    """Retriever, prompt, model, parser."""
    retriever = store().as_retriever(search_kwargs={"k": k})
    inputs: Any = {SHOWN: retriever | joined, ASKED: RunnablePassthrough()}
    chain: Runnable[Any, str] = inputs | PROMPT | (model or reader()) | StrOutputParser()
    return chain


def upper() -> Any:
    return plain() | (lambda text: text.upper())


def generated() -> Any:
    def shout(parts: Iterator[str]) -> Iterator[str]:
        for part in parts:
            yield part.upper()

    async def ashout(parts: AsyncIterator[str]) -> AsyncIterator[str]:
        async for part in parts:
            yield part.upper()

    return plain() | RunnableGenerator(shout, ashout)


FIELDS: dict[str, Any] = {SAID: (str, ...), "certain": (bool, ...)}
Reply = create_model("Reply", **FIELDS)
"""A structured answer."""


def structured() -> Any:
    inner = reader()

    def reply(messages: list[BaseMessage]) -> AIMessage:
        text = str(inner.reply(messages))
        call = {"name": "Reply", "args": {SAID: text, "certain": True}, "id": "c1"}
        return AIMessage(content="", tool_calls=[{**call, "type": "tool_call"}])

    retriever = store().as_retriever(search_kwargs={"k": 2})
    inputs: Any = {SHOWN: retriever | joined, ASKED: RunnablePassthrough()}
    return inputs | PROMPT | Chat(reply=reply).with_structured_output(Reply)


def from_dict() -> Any:
    retriever = store().as_retriever(search_kwargs={"k": 2})
    inputs: Any = {
        SHOWN: itemgetter(ASKED) | retriever | joined,
        ASKED: itemgetter(ASKED),
        "language": itemgetter("language"),
    }
    return inputs | PROMPT | reader() | StrOutputParser()


def from_blocks() -> Any:
    return RunnableLambda(lambda messages: messages[-1].content[0]["text"]) | plain()


def with_sources() -> Any:
    retriever = store().as_retriever(search_kwargs={"k": 2})
    answer: Any = PROMPT | reader() | StrOutputParser()
    inputs: Any = {FOUND: retriever, ASKED: RunnablePassthrough()}
    context = RunnablePassthrough.assign(**{SHOWN: lambda found: joined(found[FOUND])})
    return inputs | context | RunnablePassthrough.assign(**{SAID: answer})


def own_names() -> Any:
    retriever = store().as_retriever(search_kwargs={"k": 2})
    answer: Any = PROMPT | reader() | StrOutputParser()
    inputs: Any = {SHOWN: retriever | joined, ASKED: RunnablePassthrough()}
    return inputs | RunnablePassthrough.assign(**{SAID: answer})


def given_documents(question: str) -> dict[str, Any]:
    return {FOUND: [Document(text) for text in top(question)], ASKED: question}


def of_the_caller() -> Any:
    context = RunnablePassthrough.assign(**{SHOWN: lambda given: joined(given[FOUND])})
    return context | PROMPT | reader() | StrOutputParser()


def direct() -> Any:
    found = store()
    search: Any = RunnableLambda(lambda question: found.similarity_search(question, k=2))
    inputs: Any = {SHOWN: search | joined, ASKED: RunnablePassthrough()}
    return inputs | PROMPT | reader() | StrOutputParser()


def one_function() -> Any:
    found, chain = store(), PROMPT | reader() | StrOutputParser()

    def ask(question: str) -> dict[str, Any]:
        documents = found.similarity_search(question, k=2)
        text = chain.invoke({SHOWN: joined(documents), ASKED: question})
        return {SAID: text, "sources": documents}

    return RunnableLambda(ask)


def _texts_of_pairs(pairs: list[tuple[Document, float]]) -> str:
    return joined([document for document, _ in pairs])


def with_scores() -> Any:
    found = store()
    search: Any = RunnableLambda(lambda question: found.similarity_search_with_score(question, k=2))
    text: Any = RunnableLambda(_texts_of_pairs)
    inputs: Any = {SHOWN: search | text, ASKED: RunnablePassthrough()}
    return inputs | PROMPT | reader() | StrOutputParser()


def reranked() -> Any:
    retriever = store().as_retriever(search_kwargs={"k": 5})
    best: Any = RunnableLambda(lambda documents: [documents[3], documents[1]])
    inputs: Any = {SHOWN: retriever | best | joined, ASKED: RunnablePassthrough()}
    return inputs | PROMPT | reader() | StrOutputParser()


def reranked_texts(question: str) -> list[str]:
    found = top(question, 5)
    return [found[3], found[1]]


def summary(messages: list[BaseMessage]) -> str:
    return f"Short for: {prompt_text(messages)[:50]}."


def map_reduce() -> Any:
    retriever = store().as_retriever(search_kwargs={"k": 3})
    shorten: Any = RunnableLambda(lambda document: document.page_content) | Chat(reply=summary)
    context = retriever | shorten.map() | (lambda found: "\n".join(m.content for m in found))
    inputs: Any = {SHOWN: context, ASKED: RunnablePassthrough()}
    counting = Chat(reply=counted)
    return inputs | PROMPT | counting | StrOutputParser()


def counted(messages: list[BaseMessage]) -> str:
    prompt = prompt_text(messages)
    asked = prompt.rpartition("Question: ")[2]
    return answer_to(asked, [text for text in PASSAGES if text[:50] in prompt])


def refine() -> Any:
    retriever = store().as_retriever(search_kwargs={"k": 3})

    def reply(messages: list[BaseMessage]) -> str:
        before, _, passage = prompt_text(messages).partition("\nNow add: ")
        return f"{before} It is also said: {passage[:30]}."

    model = Chat(reply=reply)

    def ask(question: str) -> str:
        text = f"On {question[:12]}"
        for document in retriever.invoke(question):
            text = str(model.invoke(f"{text}\nNow add: {document.page_content}").content)
        return text

    return RunnableLambda(ask)


def refined(question: str) -> str:
    text = f"On {question[:12]}"
    for passage in top(question, 3):
        text = f"{text} It is also said: {passage[:30]}."
    return text


def one_failing() -> Shape:
    def fails(text: str) -> str:
        if text == answer_to(QUESTIONS[1], top(QUESTIONS[1])):
            raise LookupError("no tickets")
        return text

    def run(world: World, way: str) -> None:
        chain = plain() | RunnableLambda(fails)
        config: Any = {"callbacks": [RagEvalCallbackHandler(world.evals)]}
        if way == "batch":
            out = chain.batch(list(QUESTIONS), config, return_exceptions=True)
        else:
            out = asyncio.run(chain.abatch(list(QUESTIONS), config, return_exceptions=True))
        assert [isinstance(one, LookupError) for one in out] == [False, True]

    def expected(way: str) -> list[Expected]:
        from rag_eval_hooks import Status

        spans = ("chat scripted", "retrieval InMemoryVectorStore")
        good, bad = ((q, top(q)) for q in QUESTIONS)
        return [
            Expected(question=good[0], contexts=good[1], answer=answer_to(*good), spans=spans),
            Expected(
                question=bad[0], contexts=bad[1], answer=None, status=Status.ERROR, spans=spans
            ),
        ]

    ways = ("batch", "abatch")
    return Shape(group=GROUP, name="batch with one failing", ways=ways, run=run, expected=expected)


def far(documents: Any) -> list[Any]:
    return [d for d in documents if d.metadata["page"] > len(PASSAGES)]


def far_joined(documents: Any) -> str:
    return joined(far(documents))


def none_pass() -> Any:
    retriever = store().as_retriever(search_kwargs={"k": 2})
    given = {SHOWN: retriever | far | joined, ASKED: RunnablePassthrough()}
    return given | PROMPT | reader() | StrOutputParser()


def none_written() -> Any:
    retriever = store().as_retriever(search_kwargs={"k": 2})
    given = {SHOWN: retriever | far_joined, ASKED: RunnablePassthrough()}
    return given | PROMPT | reader() | StrOutputParser()


def blocks(question: str) -> list[BaseMessage]:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    return [HumanMessage(content=[{"type": "text", "text": question}, image])]


def shouted(question: str) -> str:
    return answer_to(question, top(question)).upper()


THREE_AND_ONE = ("chat scripted",) * 4 + ("retrieval InMemoryVectorStore",)

SHAPES = (
    shape(GROUP, "retriever, prompt, model, parser", plain),
    shape(GROUP, "post-processing by lambda", upper, answer=shouted),
    shape(GROUP, "RunnableGenerator", generated, answer=shouted),
    shape(
        GROUP,
        "answer as structured output",
        structured,
        answer=lambda question: as_reply(answer_to(question, top(question)), certain=True),
    ),
    shape(
        GROUP,
        "question as dict",
        from_dict,
        inputs=lambda question: {ASKED: question, "language": "en"},
    ),
    shape(GROUP, "question as content blocks", from_blocks, inputs=blocks),
    shape(GROUP, "answer beside its sources", with_sources),
    shape(GROUP, "answer under a name of its own", own_names),
    shape(
        GROUP,
        "documents given by the caller",
        of_the_caller,
        inputs=given_documents,
        spans=MODEL_ONLY,
    ),
    shape(GROUP, "similarity_search in a lambda", direct, spans=MODEL_ONLY),
    shape(GROUP, "all in one plain function", one_function, spans=MODEL_ONLY),
    shape(GROUP, "similarity_search_with_score", with_scores, spans=MODEL_ONLY),
    shape(GROUP, "rerank in a lambda", reranked, contexts=reranked_texts),
    shape(GROUP, "a filter that lets none pass", none_pass, contexts=lambda question: []),
    shape(GROUP, "a formatter that lets none pass", none_written, contexts=lambda question: []),
    shape(
        GROUP,
        "map-reduce",
        map_reduce,
        contexts=lambda question: top(question, 3),
        spans=THREE_AND_ONE,
    ),
    shape(
        GROUP,
        "refine",
        refine,
        contexts=lambda question: top(question, 3),
        answer=refined,
        spans=THREE_AND_ONE[1:],
    ),
    one_failing(),
)
