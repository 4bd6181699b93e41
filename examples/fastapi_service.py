"""A FastAPI service whose answers are scored in the background, on the traces of its requests.

    cd examples/observability && docker compose up -d && cd ../..      (Jaeger, Prometheus, Grafana)
    pip install "rag-eval-hooks[langchain,otel]" fastapi uvicorn
    OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 uvicorn --app-dir examples fastapi_service:app
    curl "http://localhost:8000/ask?question=When+do+ships+leave"

The trace is in Jaeger at http://localhost:16686, the score on its RAG span.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough

from rag_eval_hooks import RagEval, setup_tracing
from rag_eval_hooks_langchain import RagEvalCallbackHandler


class Handbook(BaseRetriever):
    """Return the only passage; replace by your retriever."""

    def _get_relevant_documents(self, query: str, **_: object) -> list[Document]:
        return [Document("Ships to Skerrow leave at 07:15, 11:30 and 16:45.")]


def pipeline() -> Runnable[str, str]:
    """Return a chain whose model invents a ship; replace the model by yours."""
    prompt = ChatPromptTemplate.from_template("{passages}\n\nQuestion: {question}")
    model = FakeListChatModel(responses=["Ships to Skerrow leave at 07:15 and 22:00."])
    inputs = {"passages": Handbook(), "question": RunnablePassthrough()}
    return inputs | prompt | model | StrOutputParser()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Evaluate while the service runs; leaving `with` waits for what is on its way."""
    if endpoint := os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        setup_tracing(otlp_endpoint=endpoint)
    with RagEval(thresholds={"ragas.faithfulness": 0.8}) as evals:
        app.state.chain = pipeline().with_config(callbacks=[RagEvalCallbackHandler(evals)])
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/ask")
async def ask(question: str) -> dict[str, str]:
    """Answer a question."""
    return {"answer": await app.state.chain.ainvoke(question)}
