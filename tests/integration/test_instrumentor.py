"""Zero-code capture under the real `opentelemetry-instrument`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from tests.servers.otlp_collector import OtlpCollector
from tests.waiting import PATIENCE

pytest.importorskip("opentelemetry.distro")
GROUP = "opentelemetry_instrumentor"
OTHERS = sorted({point.name for point in entry_points(group=GROUP)} - {"rag_eval_hooks"})
"""Other instrumentors that happen to be installed; tests of coexistence have their own folder."""
ROOT = Path(__file__).parents[2]
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


def entry_point_folder(folder: Path) -> list[str]:
    """Where the entry point is declared: the installation, else a copy of the project's own."""
    if entry_points(group=GROUP, name="rag_eval_hooks"):
        return []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (name, target), *_ = project["entry-points"][GROUP].items()
    made = folder / "rag_eval_hooks_under_test-0.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: rag_eval_hooks_under_test\n")
    (made / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {target}\n")
    return [str(folder)]


def run(folder: Path, collector: OtlpCollector, **env: str) -> subprocess.CompletedProcess[str]:
    command = shutil.which("opentelemetry-instrument", path=str(Path(sys.executable).parent))
    assert command is not None
    (folder / "app.py").write_text(APP)
    return subprocess.run(
        [command, sys.executable, "app.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE,  # Its imports alone take a minute on a busy machine.
        check=False,
        env={
            "PYTHONPATH": ":".join([*entry_point_folder(folder), *filter(None, sys.path)]),
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_SERVICE_NAME": "app",
            "OTEL_LOGS_EXPORTER": "none",
            "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": ",".join(OTHERS),
            **env,
        },
    )


def attributes(span: Any) -> Mapping[str, Any]:
    return {item.key: item.value for item in span.attributes}


def test_an_untouched_application_is_evaluated(collector: OtlpCollector, tmp_path: Path) -> None:
    """Not a line of code: spans with scores and metrics reach the collector."""
    done = run(tmp_path, collector, RAG_EVAL_METRICS="ragas.faithfulness")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["Cats sleep sixteen hours a day.", "True"]
    rag = collector.spans["invoke_workflow RunnableSequence"]
    assert attributes(rag)["rag.eval.ragas.faithfulness.score"].double_value == 1.0
    assert "evaluation RunnableSequence" in collector.spans
    assert {"rag.eval.score", "rag.eval.samples", "rag.eval.duration"} <= collector.metrics


@pytest.mark.parametrize("env", [{"RAG_EVAL_SAMPLE_RATE": "often"}, {"RAG_EVAL_NO_SUCH": "1"}])
def test_a_wrong_setting_leaves_the_application_alone(
    env: dict[str, str], collector: OtlpCollector, tmp_path: Path
) -> None:
    """The application runs, other instrumentation too, and the log names the setting."""
    done = run(tmp_path, collector, **env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "Cats sleep sixteen hours a day."
    assert next(iter(env)).removeprefix("RAG_EVAL_").lower() in done.stderr.lower()
    assert "Traceback" not in done.stderr
    assert collector.spans == {}
