"""`rag-eval-hooks doctor --trace`: the fate of a request, by spool, file, spans and sampler."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks import Sample
from rag_eval_hooks.decision import Share
from rag_eval_hooks.sample import Context
from rag_eval_hooks.sampling.sampler import position
from tests.support.doctor import TRACE, doctor, left_in_a_spool, offered
from tests.support.evaluation import faithful_judge


def test_what_waits_in_the_spool_is_explained(tmp_path: Path) -> None:
    """A sample in the spool is pending: how long, why it was chosen, and that nobody has it."""
    path = tmp_path / "spool"
    first = left_in_a_spool(path, trace_id=TRACE)
    second = left_in_a_spool(path, trace_id=TRACE)
    code, text = doctor(tmp_path, "--trace", TRACE.upper(), RAG_EVAL_SPOOL=str(path))
    assert code == 0
    assert all(f"sample {one.sample_id}: pending" in text for one in (first, second))
    assert "chosen by rule:vip with probability 0.25" in text
    assert "no process has it now" in text
    _code, text = doctor(tmp_path, "--trace", second.sample_id, RAG_EVAL_SPOOL=str(path))
    assert second.sample_id in text
    assert first.sample_id not in text


@pytest.mark.parametrize(
    "written", [TRACE.upper(), f"0x{TRACE}", f" {TRACE} ", str(uuid.UUID(TRACE)), "sample"]
)
def test_both_samples_of_a_trace_are_explained(written: str, tmp_path: Path) -> None:
    """A trace's id in any form gives each of its samples; a sample's id gives that one."""
    path = tmp_path / "scores.jsonl"
    texts = (Context(text="c"),)
    samples = [
        Sample(question="q", contexts=texts, answer="a", trace_id=TRACE),
        Sample(question="q", answer="a", trace_id=TRACE),
    ]
    offered(path, faithful_judge(), *samples)
    name = samples[1].sample_id.upper() if written == "sample" else written
    _code, text = doctor(tmp_path, "--trace", name, "--set", f"sinks=jsonl:{path}")
    assert ("ragas.faithfulness = 1" in text) is (written != "sample")
    assert "missing_input" in text


def span(trace_id: str, told: dict[str, str], *links: str) -> dict[str, Any]:
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in told.items()]
    linked = [{"traceId": link, "spanId": "c" * 16} for link in links]
    return {"traceId": trace_id, "name": "x", "attributes": attributes, "links": linked}


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (
            {"status": "sampled_out", "sampled_by": "rule:bots", "sample_rate": "0.1"},
            "sample_rate, a",
        ),
        ({"status": "dropped", "reason": "interrupted"}, "its graph waited for somebody"),
        ({"status": "dropped", "reason": "closed"}, "the reader left the stream"),
        ({"status": "dropped", "reason": "cancelled"}, "the request was cancelled"),
        ({"status": "error", "unscored": "ragas.faithfulness"}, "rag.eval.unscored names them"),
        ({}, "nothing was retrieved in it"),
    ],
)
def test_each_fate_on_a_span_has_its_advice(
    told: dict[str, str], words: str, tmp_path: Path
) -> None:
    """Each status of a RAG span is put in words; a trace without a RAG span retrieved nothing."""
    spans = tmp_path / "traces.jsonl"
    attributes = {f"rag.eval.{key}": value for key, value in told.items()}
    scopes = [{"spans": [span(TRACE, attributes), span("e" * 32, {"rag.eval.status": "ok"})]}]
    spans.write_text(json.dumps({"resourceSpans": [{"scopeSpans": scopes}]}) + "\n")
    _code, text = doctor(tmp_path, "--trace", TRACE, "--spans", str(spans))
    assert words in text


@pytest.mark.parametrize("trace_id", [TRACE, "e" * 32], ids=["child", "trace"])
def test_a_late_score_is_reported(trace_id: str, tmp_path: Path) -> None:
    """Scores that came after the RAG span had ended are on the span below it, or linked to it."""
    spans = tmp_path / "traces.jsonl"
    late = {"rag.eval.status": "timeout"}
    scored = {
        "gen_ai.operation.name": "evaluation",
        "evaluations.0.evaluation.name": "ragas.faithfulness",
    }
    scopes = [{"spans": [span(TRACE, late), span(trace_id, scored, TRACE)]}]
    spans.write_text(json.dumps({"resourceSpans": [{"scopeSpans": scopes}]}) + "\n")
    _code, text = doctor(tmp_path, "--trace", TRACE, "--spans", str(spans))
    assert "they are on the evaluation span" in text
    assert "on the evaluation span: evaluations.0.evaluation.name = ragas" in text


def test_the_sampler_goes_by_the_rates_of_the_metrics(tmp_path: Path) -> None:
    """A rate of all metrics takes the place of sample_rate; who is left out is named."""
    out = next(
        key for key in (f"{n:032x}" for n in range(100)) if not Share(0.5).includes(position(key))
    )
    arguments = ["--trace", out, "--set", "metrics=ragas.faithfulness,lexical.keyword_coverage"]
    _code, text = doctor(tmp_path, *arguments, "--set", "metric_rates=all=0.5")
    assert "at probability 0.5 (ratio) this id is left out" in text
    _code, text = doctor(tmp_path, *arguments, "--set", "metric_rates=ragas=0.5")
    assert "at probability 1 (ratio) this id is taken, but for 1 of 2 metrics: ragas.f" in text


def test_a_trace_in_the_file_is_explained(tmp_path: Path) -> None:
    """A file of scores outlives the process and says what a trace got, or why not."""
    path = tmp_path / "scores.jsonl"
    sample = Sample(question="q", contexts=("c",), answer="a", trace_id=TRACE)  # type: ignore[arg-type]
    offered(path, faithful_judge(), sample)
    code, text = doctor(tmp_path, "--trace", TRACE, "--set", f"sinks=jsonl:{path}")
    assert code == 0
    assert "ragas.faithfulness = 1" in text
    bare = Sample(question="q", answer="a", trace_id="f" * 32)
    offered(path, faithful_judge(), bare)
    _code, text = doctor(tmp_path, "--trace", "f" * 32, "--set", f"sinks=jsonl:{path}")
    assert "missing_input" in text


def test_a_trace_on_a_span_is_explained(tmp_path: Path) -> None:
    """A file of spans says what the RAG span says."""
    told = {"rag.eval.status": "dropped", "rag.eval.reason": "queue_full"}
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in told.items()]
    span = {"traceId": TRACE, "name": "invoke_workflow x", "attributes": attributes}
    request = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    spans = tmp_path / "traces.jsonl"
    spans.write_text(json.dumps(request) + "\n{cut")
    _code, text = doctor(tmp_path, "--trace", TRACE, "--spans", str(spans))
    assert "queue_full" in text
    assert "raise queue_size" in text.replace("\n", " ")


def test_a_trace_of_which_nothing_is_left_is_explained_by_the_sampler(tmp_path: Path) -> None:
    """Without files the sampler's decision is computed, and what else is possible is said."""
    keys = [f"{number:032x}" for number in range(100)]
    out = next(key for key in keys if not Share(0.5).includes(position(key)))
    taken = next(key for key in keys if Share(0.5).includes(position(key)))
    _code, text = doctor(tmp_path, "--trace", out, "--set", "sample_rate=0.5")
    assert "is left out" in text
    _code, text = doctor(tmp_path, "--trace", taken, "--set", "sample_rate=0.5")
    assert "is taken" in text
    assert "evals.explain" in text
