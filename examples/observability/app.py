"""Run a small RAG application with metrics for Prometheus and the dashboard.

    python app.py --prometheus 9464                  # metrics on http://localhost:9464/metrics
    python app.py --otlp http://localhost:4318       # metrics and traces to a Collector

It answers questions about a small handbook, some of them wrongly, until it is stopped. The judge is
the OpenAI-compatible endpoint in RAG_EVAL_JUDGE, or the built-in one.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider

from rag_eval_hooks import RagEval, setup_tracing
from rag_eval_hooks_langchain import RagEvalCallbackHandler

PASSAGES = [
    "The crossing to Skerrow takes 55 minutes. Ships leave at 07:15, 11:30 and 16:45.",
    "Cars must stand in the loading lane 40 minutes before departure.",
]
ANSWERS = [
    "The crossing to Skerrow takes 55 minutes.",
    "Ships leave at 07:15, 11:30 and 16:45.",
    "Cars must stand in the loading lane 10 minutes before departure.",
]
QUESTIONS = ["How long is the crossing?", "When do ships leave?", "When must cars be there?"]


class Handbook(BaseRetriever):
    """Return both passages of the handbook for every question."""

    def _get_relevant_documents(self, query: str, **_: object) -> list[Document]:
        return [Document(text) for text in PASSAGES]


def pipeline() -> Runnable[str, object]:
    """Return a chain of a retriever, a prompt and a model that gives the answers in turn."""
    prompt = ChatPromptTemplate.from_template("{passages}\n\nQuestion: {question}")
    inputs = {"passages": Handbook(), "question": RunnablePassthrough()}
    chain: Runnable[str, object] = inputs | prompt | FakeListChatModel(responses=ANSWERS)
    return chain.with_config(run_name="handbook")


def serve_metrics(port: int) -> None:
    """Serve metrics to a Prometheus."""
    from opentelemetry.exporter.prometheus import PrometheusMetricReader
    from prometheus_client import start_http_server

    start_http_server(port, addr="127.0.0.1")
    metrics.set_meter_provider(MeterProvider([PrometheusMetricReader()]))


def main() -> None:
    """Ask a few questions a second, forever."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--prometheus", type=int, metavar="PORT", help="port for metrics")
    parser.add_argument("--otlp", metavar="URL", help="endpoint for metrics and traces")
    parser.add_argument("--pause", type=float, default=0.2, help="seconds between questions")
    arguments = parser.parse_args()
    if arguments.prometheus is None and arguments.otlp is None:
        parser.error("give --prometheus or --otlp")
    if arguments.prometheus is not None:
        serve_metrics(arguments.prometheus)
    if arguments.otlp is not None:
        # A minute, the default, is long for someone who waits in front of a dashboard.
        os.environ.setdefault("OTEL_METRIC_EXPORT_INTERVAL", "5000")
        setup_tracing(otlp_endpoint=arguments.otlp)
    thresholds = {"ragas.faithfulness": 0.8}
    with RagEval(metrics=["ragas", "lexical"], thresholds=thresholds) as evals:
        chain, handler = pipeline(), RagEvalCallbackHandler(evals)
        for visitor, question in enumerate(itertools.cycle(QUESTIONS)):
            # Every question is different, so that a judge's memo does not answer them.
            asked = f"{question} I am visitor {visitor}."
            chain.invoke(asked, config={"callbacks": [handler]})
            time.sleep(arguments.pause)


if __name__ == "__main__":
    main()
