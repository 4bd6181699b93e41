"""`rag-eval-hooks doctor --trace`: what a spool says of processes and platforms that are gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from rag_eval_hooks import RagEval, RagEvalConfig, Sample
from rag_eval_hooks.config import limits
from rag_eval_hooks.decision import Share
from rag_eval_hooks.sampling.sampler import position
from tests.support.doctor import TRACE, doctor, in_a_spool, offered, results
from tests.support.evaluation import faithful_judge


def test_a_file_is_owned_as_long_as_its_process_lives(tmp_path: Path) -> None:
    """A process that has ended has its samples no more; the look changes nothing."""
    folder = tmp_path / "spool"
    _sample, outbox = in_a_spool(folder, trace_id=TRACE)
    _code, text = doctor(tmp_path, "--trace", TRACE, RAG_EVAL_SPOOL=str(folder))
    assert "a process of these settings evaluates it" in text
    _code, rows = results(tmp_path, RAG_EVAL_SPOOL=str(folder), RAG_EVAL_EMBEDDER="none")
    assert rows["spool"]["figures"].get("unclaimed", 0) == 0
    outbox.close(60)
    names = sorted(path.name for path in folder.iterdir())
    _code, text = doctor(tmp_path, "--trace", TRACE, RAG_EVAL_SPOOL=str(folder))
    assert "no process has it now" in text
    assert "start a process" in text
    assert {*names} <= {path.name for path in folder.iterdir()}


def test_scores_that_wait_for_a_platform_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trace that is scored, and whose platform was down until its process ended, is no riddle."""
    path, provider = tmp_path / "spool", TracerProvider()
    monkeypatch.setattr(limits, "SINK_RETRY_SECONDS", 0.1)
    config = RagEvalConfig(spool=str(path))
    span = provider.get_tracer("app").start_span("x").get_span_context()
    sample = Sample(
        question="q",
        contexts=("c",),  # type: ignore[arg-type]
        answer="a",
        trace_id=f"{span.trace_id:032x}",
        span_id=f"{span.span_id:016x}",
    )
    sinks = "phoenix:http://127.0.0.1:9"
    with RagEval(["ragas.faithfulness"], faithful_judge(), sinks=sinks, config=config) as evals:
        evals.offer(sample)
        evals.flush(300)
    variables = {"RAG_EVAL_SPOOL": str(path), "RAG_EVAL_SINKS": sinks}
    _code, text = doctor(tmp_path, "--trace", str(sample.trace_id), **variables)
    assert "phoenix has not taken its 1 scores yet" in text
    assert "no process has them now" in text
    assert "nothing was retrieved" not in text


def test_the_sampler_is_asked_about_the_trace_of_a_sample(tmp_path: Path) -> None:
    """By a sample's id the decision is told that was made, by the trace's id."""
    path = tmp_path / "scores.jsonl"
    taken = next(k for n in range(100) if Share(0.5).includes(position(k := f"{n:032x}")))
    samples = [Sample(question="q", answer="a", trace_id=taken) for _ in range(12)]
    out = next(s for s in samples if not Share(0.5).includes(position(s.sample_id)))
    offered(path, faithful_judge(), out)
    settings = ["--set", f"sinks=jsonl:{path}", "--set", "sample_rate=0.5"]
    _code, text = doctor(tmp_path, "--json", "--trace", out.sample_id, *settings)
    rows = {row["check"]: row for row in json.loads(text)["results"]}
    assert "is taken" in rows["sampler"]["text"]


@pytest.mark.parametrize(
    ("told", "status", "words"),
    [
        ({"status": "ok", "reason": "ratio"}, "failed", "no chosen metric has a value for it"),
        ({"status": "error", "failed": ["ragas.a", "ragas.b"]}, "failed", "their causes"),
        ({"status": "ok", "ragas.faithfulness.score": "1"}, "ok", ""),
    ],
)
def test_a_span_without_a_score_is_told_why(
    told: dict[str, Any], status: str, words: str, tmp_path: Path
) -> None:
    """An evaluation in which nothing failed may have no score all the same: that is no answer."""
    spans = tmp_path / "traces.jsonl"
    attributes = [
        {"key": f"rag.eval.{key}", "value": _written(value)} for key, value in told.items()
    ]
    rag = {"traceId": TRACE, "name": "x", "attributes": attributes}
    spans.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [rag]}]}]}) + "\n")
    _code, text = doctor(tmp_path, "--json", "--trace", TRACE, "--spans", str(spans))
    (row,) = (r for r in json.loads(text)["results"] if r["check"] == "on the RAG span")
    assert row["status"] == status
    assert words in row["advice"].lower()
    assert "stringValue" not in row["text"]


def _written(value: str | list[str]) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": value}
    return {"arrayValue": {"values": [_written(item) for item in value]}}
