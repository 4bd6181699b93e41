"""Zero-code capture under the real `opentelemetry-instrument`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rag_eval_hooks.instrumentor import RagEvalInstrumentor
from tests.support.otel import Spans
from tests.support.servers.otlp_collector import OtlpCollector
from tests.waiting import PATIENCE

pytest.importorskip("opentelemetry.distro")
GROUP = "opentelemetry_instrumentor"
OTHERS = sorted({point.name for point in entry_points(group=GROUP)} - {"rag_eval_hooks"})
"""Other instrumentors that happen to be installed; tests of coexistence have their own folder."""
APP = """
import sys
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough

class Store(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document("Cats sleep sixteen hours a day, says the handbook.")]

prompt = ChatPromptTemplate.from_template("{context} {question}")
model = FakeListChatModel(responses=["Cats sleep sixteen hours a day."])
chain = {"context": Store(), "question": RunnablePassthrough()} | prompt | model
print(chain.invoke("How long do cats sleep?").content)
print("rag_eval_hooks" in sys.modules)
"""


@pytest.fixture
def collector() -> Iterator[OtlpCollector]:
    with OtlpCollector() as made:
        yield made


def declare_entry_point(folder: Path) -> None:
    """Declare the project's entry point in the folder unless the installation declares it."""
    if entry_points(group=GROUP, name="rag_eval_hooks"):
        return
    target = "rag_eval_hooks.instrumentor:RagEvalInstrumentor"
    made = folder / "rag_eval_hooks_under_test-0.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: rag_eval_hooks_under_test\n")
    (made / "entry_points.txt").write_text(f"[{GROUP}]\nrag_eval_hooks = {target}\n")


def run(
    folder: Path,
    collector: OtlpCollector,
    more: str = "",
    has_llama_index: bool = False,
    **env: str,
) -> subprocess.CompletedProcess[str]:
    command = shutil.which("opentelemetry-instrument", path=str(Path(sys.executable).parent))
    assert command is not None
    declare_entry_point(folder)
    (folder / "app.py").write_text(APP + textwrap.dedent(more))
    if not has_llama_index:
        (folder / "llama_index.py").write_text("raise ImportError")
    return subprocess.run(
        [command, sys.executable, "app.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE,  # Its imports alone take a minute on a busy machine.
        check=False,
        env={
            "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)]),
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.listen_to_grpc(),
            "OTEL_SERVICE_NAME": "app",
            "SSL_CERT_FILE": os.environ["SSL_CERT_FILE"],
            "RAG_EVAL_EXIT_TIMEOUT": "60",
            "RAG_EVAL_HOLD_TIMEOUT": "60",
            "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": ",".join(OTHERS),
            **env,
        },
    )


def attributes(span: Any) -> Mapping[str, Any]:
    return {item.key: item.value for item in span.attributes}


PLAIN = """
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from langchain_core.vectorstores import InMemoryVectorStore

    kept = InMemoryVectorStore(DeterministicFakeEmbedding(size=4))
    kept.add_texts(["Cats sleep sixteen hours a day, says another handbook."])

    def ask(question):
        (found,) = kept.similarity_search(question, k=1)
        return model.invoke(f"{found.page_content} {question}")

    ask("How long do cats rest?")
"""


def test_an_untouched_application_is_evaluated(collector: OtlpCollector, tmp_path: Path) -> None:
    metric = "ragas.faithfulness"
    done = run(tmp_path, collector, PLAIN, has_llama_index=True, RAG_EVAL_METRICS=metric)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["Cats sleep sixteen hours a day.", "True"]
    rag = collector.spans["invoke_workflow RunnableSequence"]
    assert attributes(rag)["rag.eval.ragas.faithfulness.score"].double_value == 1.0
    plain = collector.spans["invoke_workflow interaction"]
    assert attributes(plain)["rag.eval.ragas.faithfulness.score"].double_value == 1.0
    assert {"rag.eval.score", "rag.eval.samples", "rag.eval.duration"} <= collector.metrics


KILLED = """
    import os, signal, threading
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(60)
"""
RAISED_AGAIN = """
    import os, signal
    def served(*_):
        signal.signal(signal.SIGTERM, before)
        signal.raise_signal(signal.SIGTERM)
    before = signal.signal(signal.SIGTERM, served)
"""
"""As uvicorn does it: a handler of its own, and at the end the signal again."""


@pytest.mark.parametrize("before", [pytest.param("", marks=pytest.mark.long), RAISED_AGAIN])
def test_sigterm_loses_no_span(before: str, collector: OtlpCollector, tmp_path: Path) -> None:
    done = run(tmp_path, collector, before + KILLED, RAG_EVAL_METRICS="ragas.faithfulness")
    assert done.returncode == -signal.SIGTERM, done.stderr
    rag = collector.spans["invoke_workflow RunnableSequence"]
    assert attributes(rag)["rag.eval.ragas.faithfulness.score"].double_value == 1.0


def test_wrong_settings_start_nothing_and_the_end_of_chainlit_writes_the_scores(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ends: list[Callable[[], None]] = []
    chainlit = SimpleNamespace(on_app_shutdown=ends.append)
    monkeypatch.setitem(sys.modules, "chainlit", chainlit)
    monkeypatch.setenv("RAG_EVAL_METRICS", "ragas.faithfulness")
    instrumentor, spans, before = RagEvalInstrumentor(), Spans(), signal.getsignal(signal.SIGTERM)
    application: dict[str, Any] = {}
    for rate, handler in (("often", signal.SIG_DFL), ("1", signal.SIG_DFL), ("1", print)):
        monkeypatch.setenv("RAG_EVAL_SAMPLE_RATE", rate)
        signal.signal(signal.SIGTERM, handler)
        instrumentor.instrument(tracer_provider=spans.provider)
        stays = signal.getsignal(signal.SIGTERM) is handler
        assert stays == (instrumentor.evals is None or handler is print)
        exec(APP, application)
        assert (instrumentor.evals is None) == (rate == "often") == (not ends)
        for finish in ends:
            finish()
        instrumentor.uninstrument()
        application["chain"].invoke("Who asks after the end?")
    signal.signal(signal.SIGTERM, before)
    assert "sample_rate is 'often'" in caplog.text
    rag = [span.attributes or {} for span in spans.named("invoke_workflow RunnableSequence")]
    assert [told["rag.eval.ragas.faithfulness.score"] for told in rag] == [1.0, 1.0]
