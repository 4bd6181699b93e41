"""The demo in a real MLflow, read back by its client."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from rag_eval_hooks.sinks.mlflow import MlflowSink
from tests.viewers.demo import Scored, run_demo
from tests.viewers.mlflow import Mlflow, mlflow
from tests.viewers.redeliver import redeliver


@dataclass(frozen=True)
class Shown:
    mlflow: Mlflow
    scored: list[Scored]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with mlflow(tmp_path_factory.mktemp("mlflow")) as server:
        folder = tmp_path_factory.mktemp("demo")
        arguments = ("--otlp-endpoint", server.url, "--sink", f"mlflow:{server.url}", "--content")
        headers = {"OTEL_EXPORTER_OTLP_HEADERS": "x-mlflow-experiment-id=0"}
        yield Shown(server, run_demo(folder, *arguments, **headers))


def test_every_score_is_an_assessment_and_an_attribute(shown: Shown) -> None:
    """MLflow's client reads each score once as feedback on its trace and once on its RAG span."""
    traces = shown.mlflow.traces()
    for one in shown.scored:
        trace = traces[f"tr-{one.trace_id}"]
        told = {note["name"]: note["value"] for note in trace["assessments"]}
        assert told == one.scores
        assert len(trace["assessments"]) == len(one.scores)
        (span,) = [span for span in trace["spans"] if span["id"] == one.span_id]
        for name, value in one.scores.items():
            assert span["attributes"][f"rag.eval.{name}.score"] == value


def test_a_failing_claim_is_told(shown: Shown) -> None:
    """The rationale of a low faithfulness names the claim that nothing supports."""
    traces = shown.mlflow.traces()
    claims = {one.trace_id: claim for one in shown.scored if (claim := one.failing_claim())}
    assert claims
    for trace_id, claim in claims.items():
        notes = {note["name"]: note for note in traces[f"tr-{trace_id}"]["assessments"]}
        assert f"not supported: {claim}" in notes["ragas.faithfulness"]["rationale"]


def test_bad_answers_are_found_by_the_search(shown: Shown) -> None:
    """MLflow's search finds the traces whose answer claims something false."""
    found = shown.mlflow.traces("feedback.`ragas.faithfulness` = '0.0'")
    low = {one.trace_id for one in shown.scored if one.scores.get("ragas.faithfulness") == 0.0}
    assert low
    assert set(found) == {f"tr-{trace_id}" for trace_id in low}


def test_scores_sent_again_replace_themselves(shown: Shown) -> None:
    """Delivered a second time, a score replaces itself, with its new value."""
    one = shown.scored[0]
    redeliver(MlflowSink(shown.mlflow.url), one, value=0.25)
    trace = shown.mlflow.traces()[f"tr-{one.trace_id}"]
    told = {note["name"]: note["value"] for note in trace["assessments"]}
    assert told == {**one.scores, "ragas.faithfulness": 0.25}
    assert len(trace["assessments"]) == len(one.scores)
    redeliver(MlflowSink(shown.mlflow.url), one)
