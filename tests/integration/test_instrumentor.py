"""Zero-code capture under the real `opentelemetry-instrument`."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from rag_eval_hooks_langchain import RagEvalCallbackHandler

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


class Collector:
    """A real OTLP/HTTP receiver for traces and metrics."""

    def __init__(self) -> None:
        self.spans: dict[str, Any] = {}
        self.metrics: set[str] = set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                outer.take(self.path, body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    self.spans |= {span.name: span for span in scope.spans}
        elif path == "/v1/metrics":
            for kept in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for part in kept.scope_metrics:
                    self.metrics |= {metric.name for metric in part.metrics}


pytestmark = pytest.mark.skipif(
    not hasattr(RagEvalCallbackHandler, "enable"), reason="the handler cannot be enabled globally"
)


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.server.shutdown()
    made.server.server_close()


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


def run(folder: Path, collector: Collector, **env: str) -> subprocess.CompletedProcess[str]:
    command = shutil.which("opentelemetry-instrument", path=str(Path(sys.executable).parent))
    assert command is not None
    (folder / "app.py").write_text(APP)
    return subprocess.run(
        [command, sys.executable, "app.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={
            "PYTHONPATH": ":".join([*entry_point_folder(folder), *filter(None, sys.path)]),
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server.server_port}",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_SERVICE_NAME": "app",
            "OTEL_LOGS_EXPORTER": "none",
            "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": ",".join(OTHERS),
            **env,
        },
    )


def attributes(span: Any) -> Mapping[str, Any]:
    return {item.key: item.value for item in span.attributes}


def test_an_untouched_application_is_evaluated(collector: Collector, tmp_path: Path) -> None:
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
    env: dict[str, str], collector: Collector, tmp_path: Path
) -> None:
    """The application runs, other instrumentation too, and the log names the setting."""
    done = run(tmp_path, collector, **env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "Cats sleep sixteen hours a day."
    assert next(iter(env)).removeprefix("RAG_EVAL_").lower() in done.stderr.lower()
    assert "Traceback" not in done.stderr
    assert collector.spans == {}
