"""A web application in FastAPI and in Flask, with an ingestion job.

It knows of evaluation only where a view has a block of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, TypedDict

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse, StreamingResponse
from flask import Flask, Response, request, stream_with_context
from langchain_core.callbacks import CallbackManagerForLLMRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from langgraph.graph import START, StateGraph

from rag_eval_hooks.instrumentor import RagEvalInstrumentor


class Shelf(BaseRetriever):
    """Finds what the question's number is about."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        number = query.rstrip("?").rsplit(" ", 1)[-1]
        return [Document(f"Locker {number} is opened by the key with the number {number}7.")]


class Clerk(BaseChatModel):
    """Repeats the sentence of its prompt that begins with `Locker`."""

    @property
    def _llm_type(self) -> str:
        return "clerk"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        lines = str(messages[-1].content).splitlines()
        said = next((line for line in lines if line.startswith("Locker ")), "I do not know.")
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=said))])


class Index(TypedDict):
    """State of the ingestion graph."""

    docs: list[Document]


def ingest(state: Index) -> Index:
    """Take the documents and give none back."""
    return {"docs": []}


PROMPT = "Use this:\n{context}\nQuestion: {question}"
shelf, clerk = Shelf(), Clerk()
chain = (
    {"context": shelf | (lambda found: found[0].page_content), "question": RunnablePassthrough()}
    | ChatPromptTemplate.from_template(PROMPT)
    | clerk
)
indexing = StateGraph(Index).add_node("ingest", ingest).add_edge(START, "ingest").compile()
app = FastAPI()
application = Flask(__name__)


def _ingest() -> str:
    indexing.invoke({"docs": [Document("Locker 9 is opened by nobody at all, says the book.")]})
    return "done"


@app.get("/ask")
async def ask(question: str) -> StreamingResponse:
    """Answer as a stream; retriever and model are called one by one."""
    found = await shelf.ainvoke(question)

    async def words() -> AsyncIterator[str]:
        async for chunk in clerk.astream(
            PROMPT.format(context=found[0].page_content, question=question)
        ):
            yield str(chunk.content)

    return StreamingResponse(words())


@app.get("/chain")
def ask_chain(question: str) -> PlainTextResponse:
    """Answer by a chain."""
    return PlainTextResponse(str(chain.invoke(question).content))


@app.get("/block")
async def ask_in_block(question: str) -> StreamingResponse:
    """Answer as a stream, from documents that no event shows."""

    async def words(block: Any) -> AsyncIterator[str]:
        async with block as it:
            found = shelf._get_relevant_documents(question, run_manager=None)
            it.contexts(found)
            prompt = PROMPT.format(context=found[0].page_content, question=question)
            async for chunk in clerk.astream(prompt):
                yield str(chunk.content)

    return StreamingResponse(words(RagEvalInstrumentor().evals.interaction(question)))


@app.get("/ingest")
def ask_ingest() -> PlainTextResponse:
    """Index a document."""
    return PlainTextResponse(_ingest())


@application.get("/ask")
def flask_ask() -> Response:
    """Answer as a stream; retriever and model are called one by one."""
    question = request.args["question"]
    found = shelf.invoke(question)

    @stream_with_context
    def words() -> Iterator[str]:
        prompt = PROMPT.format(context=found[0].page_content, question=question)
        for chunk in clerk.stream(prompt):
            yield str(chunk.content)

    return Response(words())


@application.get("/chain")
def flask_chain() -> str:
    """Answer by a chain."""
    return str(chain.invoke(request.args["question"]).content)


@application.get("/block")
def flask_block() -> Response:
    """Answer as a stream, from documents that no event shows."""
    question = request.args["question"]

    def words(block: Any) -> Iterator[str]:
        with block as it:
            found = shelf._get_relevant_documents(question, run_manager=None)
            it.contexts(found)
            prompt = PROMPT.format(context=found[0].page_content, question=question)
            for chunk in clerk.stream(prompt):
                yield str(chunk.content)

    return Response(words(RagEvalInstrumentor().evals.interaction(question)))


@application.get("/ingest")
def flask_ingest() -> str:
    """Index a document."""
    return _ingest()
