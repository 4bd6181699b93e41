"""Spans as an OTLP receiver on loopback gets them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.otlp_collector import OtlpCollector
from tests.waiting import PATIENCE

SCRIPT = """
import sys
from rag_eval_hooks import RagEval, setup_tracing
from rag_eval_hooks.testing import Findings, ScriptedJudge, Support
from tests.support.evaluation import record_request

setup_tracing(endpoint=sys.argv[1])
half = (Support((True,)), Support((False,)))
judge = ScriptedJudge(Findings(answer_claims=("a", "b"), answer_support=half))
evals = RagEval(metrics=["ragas.faithfulness"], judge=judge)
record_request(evals, workflow="help")
"""


@pytest.fixture
def receiver() -> Iterator[OtlpCollector]:
    with OtlpCollector() as collector:
        yield collector


def run(folder: Path, endpoint: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, endpoint],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={
            "PYTHONPATH": ":".join(sys.path),
            "RAG_EVAL_EXIT_TIMEOUT": "60",
            "RAG_EVAL_HOLD_TIMEOUT": "60",
            **env,
        },
    )


@pytest.mark.parametrize("suffix", ["", "/v1/traces"])
def test_a_receiver_gets_the_scores_on_the_rag_span(
    suffix: str, receiver: OtlpCollector, tmp_path: Path
) -> None:
    run(tmp_path, f"{receiver.url}{suffix}")
    assert set(receiver.paths) == {"/v1/traces", "/v1/metrics", "/v1/logs"}
    assert "rag.eval.score" in receiver.metrics
    assert [record.event_name for record in receiver.log_records] == ["gen_ai.evaluation.result"]
    spans = receiver.spans
    assert set(spans) == {"invoke_workflow help", "retrieval store"}
    rag = spans["invoke_workflow help"]
    attributes = {a.key: a.value for a in rag.attributes}
    assert attributes["rag.eval.ragas.faithfulness.score"].double_value == 0.5
    assert spans["retrieval store"].parent_span_id == rag.span_id


def test_an_existing_provider_is_never_replaced(tmp_path: Path) -> None:
    code = (
        "from opentelemetry import trace\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "from rag_eval_hooks import setup_tracing\n"
        "trace.set_tracer_provider(TracerProvider())\n"
        "try: setup_tracing(console=True)\n"
        "except RuntimeError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert "already set" in done.stdout
