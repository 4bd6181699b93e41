"""A web application in FastAPI and in Flask, graphs, and an ingestion job, without a handler."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, TypedDict

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse, StreamingResponse
from flask import Flask, Response, request, stream_with_context
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from langgraph.graph import START, StateGraph


class Shelf(BaseRetriever):
    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        number = query.rstrip("?").rsplit(" ", 1)[-1]
        return [Document(f"Locker {number} is opened by the key with the number {number}7.")]


class Clerk(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "clerk"

    def _generate(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> ChatResult:
        lines = str(messages[-1].content).splitlines()
        said = next((line for line in lines if line.startswith("Locker ")), "I do not know.")
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=said))])


TEMPLATE = "Use this:\n{context}\nQuestion: {question}"
shelf, clerk = Shelf(), Clerk()


def prompt(question: str, found: list[Document]) -> str:
    return TEMPLATE.format(context=found[0].page_content, question=question)


def words(question: str, found: list[Document]) -> Iterator[str]:
    for chunk in clerk.stream(prompt(question, found)):
        yield str(chunk.content)


async def awords(question: str, found: list[Document]) -> AsyncIterator[str]:
    async for chunk in clerk.astream(prompt(question, found)):
        yield str(chunk.content)


class Asked(TypedDict, total=False):
    question: str
    documents: list[Document]
    answer: str


class Index(TypedDict):
    docs: list[Document]


def retrieve(state: Asked) -> Asked:
    return {"documents": shelf.invoke(state["question"])}


def generate(state: Asked) -> Asked:
    said = clerk.invoke(prompt(state["question"], state["documents"]))
    return {"answer": str(said.content)}


asking = StateGraph(Asked).add_node(retrieve).add_node(generate)
asking = asking.add_edge(START, "retrieve").add_edge("retrieve", "generate").compile()
indexing = StateGraph(Index).add_node("ingest", lambda _: {"docs": []})
indexing = indexing.add_edge(START, "ingest").compile()
inputs = {"context": shelf | (lambda found: found[0].page_content)}
chain = (
    {**inputs, "question": RunnablePassthrough()}
    | ChatPromptTemplate.from_template(TEMPLATE)
    | clerk
)


def ingest() -> str:
    indexing.invoke({"docs": [Document("Locker 9 is opened by nobody at all, says the book.")]})
    return "done"


# Retriever and model one by one as a stream, and a chain.

app = FastAPI()


@app.get("/ask")
async def ask(question: str) -> StreamingResponse:
    return StreamingResponse(awords(question, await shelf.ainvoke(question)))


@app.get("/chain")
def ask_chain(question: str) -> PlainTextResponse:
    return PlainTextResponse(str(chain.invoke(question).content))


@app.get("/ingest")
def ask_ingest() -> PlainTextResponse:
    return PlainTextResponse(ingest())


application = Flask(__name__)
application.get("/ingest")(ingest)


@application.get("/ask")
def flask_ask() -> Response:
    question = request.args["question"]
    return Response(stream_with_context(words(question, shelf.invoke(question))))


@application.get("/chain")
def flask_chain() -> str:
    return str(chain.invoke(request.args["question"]).content)
