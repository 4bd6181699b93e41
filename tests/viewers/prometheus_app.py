"""Serve metrics to a Prometheus, and answer questions, a third of them wrongly, until stopped."""

from __future__ import annotations

import itertools
import sys
import time

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough
from opentelemetry import metrics
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import start_http_server

from rag_eval_hooks import RagEval
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
    def _get_relevant_documents(self, query: str, **_: object) -> list[Document]:
        return [Document(text) for text in PASSAGES]


def pipeline() -> Runnable[str, object]:
    prompt = ChatPromptTemplate.from_template("{passages}\n\nQuestion: {question}")
    inputs = {"passages": Handbook(), "question": RunnablePassthrough()}
    chain: Runnable[str, object] = inputs | prompt | FakeListChatModel(responses=ANSWERS)
    return chain.with_config(run_name="handbook")


def main() -> None:
    start_http_server(int(sys.argv[1]), addr="127.0.0.1")
    metrics.set_meter_provider(MeterProvider([PrometheusMetricReader()]))
    thresholds = {"ragas.faithfulness": 0.8}
    with RagEval(metrics=["ragas", "lexical"], thresholds=thresholds) as evals:
        chain, handler = pipeline(), RagEvalCallbackHandler(evals)
        for visitor, question in enumerate(itertools.cycle(QUESTIONS)):
            # Every question is different, so that a judge's memo does not answer them.
            asked = f"{question} I am visitor {visitor}."
            chain.invoke(asked, config={"callbacks": [handler]})
            time.sleep(0.2)


if __name__ == "__main__":
    main()
