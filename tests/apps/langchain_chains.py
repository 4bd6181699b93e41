"""Chains of LangChain packages, and servers made of them."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from fastapi import FastAPI
from langchain_classic.chains import RetrievalQA, create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langserve import add_routes
from starlette.testclient import TestClient

from tests.apps.case import Case
from tests.apps.langchain_kit import app, best, model, retriever
from tests.apps.texts import Texts
from tests.matrix.langchain.kit import joined
from tests.matrix.shape import Shape

PROMPT = ChatPromptTemplate.from_template("Use only this:\n{context}\n\nQuestion: {input}")


def lcel(texts: Texts, answer: str) -> Any:
    inputs = {"context": retriever(texts) | joined, "input": RunnablePassthrough()}
    return inputs | PROMPT | model(default=answer) | StrOutputParser()


def text_run_id(texts: Texts) -> Case:
    """A chain whose caller gives its run an id as text."""
    question, answer = texts.question(0), texts.answer(0)
    stuff = create_stuff_documents_chain(model(default=answer), PROMPT)
    return Case(
        create_retrieval_chain(retriever(texts), stuff),
        {"input": question},
        question,
        best(texts, question),
        answer,
        config={"run_id": str(uuid.uuid4())},
    )


def odd_run_id(texts: Texts) -> Case:
    question, answer = texts.question(1), texts.short(1)
    return Case(
        lcel(texts, answer),
        question,
        question,
        best(texts, question),
        answer,
        config={"run_id": f"request-{texts.random.randrange(10**6)}"},
    )


def served(texts: Texts) -> Case:
    question, answer = texts.question(2), texts.answer(2)

    def ask(config: Any) -> None:
        server = FastAPI()
        add_routes(server, lcel(texts, answer).with_config(config), path="/rag")
        with TestClient(server) as client:
            reply = client.post("/rag/invoke", json={"input": question})
            assert reply.json()["output"] == answer, reply.text

    return Case(question=question, contexts=best(texts, question), answer=answer, ask=ask)


def one_of_many(texts: Texts) -> Case:
    """Map-rerank: every sheet is asked by itself, the best reply is the answer."""
    question, answer = texts.question(4), texts.short(4)
    chat = model(
        (texts.sheets[4], f"{answer}\nScore: 100"),
        default="This document does not answer the question\nScore: 0",
    )
    chain = RetrievalQA.from_chain_type(chat, "map_rerank", retriever=retriever(texts))
    return Case(chain, {"query": question}, question, [texts.sheets[4]], answer)


def rows(texts: Texts) -> Case:
    from langchain_community.chains.graph_qa.cypher import GraphCypherQAChain
    from langchain_community.graphs.graph_store import GraphStore

    question, answer = texts.question(6), texts.answer(6)
    found = [{"t.name": texts.names[n], "t.figure": texts.numbers[n]} for n in (6, 0)]

    class Graph(GraphStore):  # type: ignore[misc]
        get_schema = "Thing {name: STRING, figure: INTEGER}"
        get_structured_schema: ClassVar[dict[str, Any]] = {}

        def query(self, query: str, params: dict[str, Any] | None = None) -> Any:
            return found

        def refresh_schema(self) -> None: ...

        def add_graph_documents(self, *args: Any, **kwargs: Any) -> None: ...

    chain = GraphCypherQAChain.from_llm(
        model(("Generate Cypher", "MATCH (t:Thing) RETURN t.name, t.figure"), default=answer),
        graph=Graph(),
        allow_dangerous_requests=True,
    )
    return Case(chain, {"query": question}, question, [str(row) for row in found], answer)


def remembered(texts: Texts) -> Case:
    """Memory of a classic chain, whose retriever is called before the chain's run begins."""
    from langchain_classic.chains import ConversationChain
    from langchain_classic.memory import VectorStoreRetrieverMemory

    question, answer = texts.question(7), texts.answer(7)
    memory = VectorStoreRetrieverMemory(retriever=retriever(texts), return_docs=False)
    chain = ConversationChain(llm=model(default=answer), memory=memory)
    return Case(chain, {"input": question}, question, best(texts, question), answer)


def shapes(seed: int) -> list[Shape]:
    return [
        app("run id as text", "create_retrieval_chain", text_run_id, seed),
        app("run id as text", "LCEL, no UUID", odd_run_id, seed),
        app("run id as text", "langserve", served, seed, ("invoke", "enable")),
        app("several calls for one answer", "RetrievalQA map_rerank", one_of_many, seed),
        app("rows", "GraphCypherQAChain", rows, seed, ("enable",)),
        app("called by hand", "VectorStoreRetrieverMemory", remembered, seed, ("enable",)),
    ]
