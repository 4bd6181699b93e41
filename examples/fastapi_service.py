"""A FastAPI service. rag-eval-hooks scores the answers in the background.

    pip install ".[langchain,openai,otel]" fastapi uvicorn langchain-openai    # in a clone
    docker compose -f examples/observability/docker-compose.yml up -d
    OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 uvicorn --app-dir examples fastapi_service:app
    curl "http://localhost:8000/ask?question=When+do+ships+leave"

Jaeger (http://localhost:16686) shows the trace, with the score on the RAG span. Without
OPENAI_API_KEY, a scripted model answers, and its answer states a wrong departure time.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough

from rag_eval_hooks import RagEval, setup_tracing
from rag_eval_hooks_langchain import RagEvalCallbackHandler

REAL = "OPENAI_API_KEY" in os.environ


class Handbook(BaseRetriever):
    """Returns the only passage of the handbook."""

    def _get_relevant_documents(self, query: str, **_: object) -> list[Document]:
        return [Document("Ships to Skerrow leave at 07:15, 11:30 and 16:45.")]


def model() -> BaseChatModel:
    """Return a real model if `OPENAI_API_KEY` is set, else a scripted model."""
    if not REAL:
        return FakeListChatModel(responses=["Ships to Skerrow leave at 07:15 and 22:00."])
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="gpt-4o-mini")


def pipeline() -> Runnable[str, str]:
    """Return the chain of retriever, prompt and model."""
    prompt = ChatPromptTemplate.from_template("{passages}\n\nQuestion: {question}")
    inputs = {"passages": Handbook(), "question": RunnablePassthrough()}
    return inputs | prompt | model() | StrOutputParser()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Evaluate while the service runs. At shutdown, wait for pending scores."""
    if endpoint := os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        setup_tracing(endpoint=endpoint)
    judge = "openai:gpt-4o-mini" if REAL else "heuristic"
    with RagEval(judge=judge, thresholds={"ragas.faithfulness": 0.8}) as evals:
        app.state.chain = pipeline().with_config(callbacks=[RagEvalCallbackHandler(evals)])
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/ask")
async def ask(question: str) -> dict[str, str]:
    """Return the answer to a question."""
    return {"answer": await app.state.chain.ainvoke(question)}
