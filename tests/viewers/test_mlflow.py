"""The demo in a real MLflow, read back by its client."""

from __future__ import annotations

from rag_eval_hooks.delivery.platforms.mlflow import MlflowSink
from tests.viewers.conftest import InMlflow
from tests.viewers.redeliver import redeliver


def test_every_score_is_an_assessment_and_an_attribute(in_mlflow: InMlflow) -> None:
    """MLflow's client reads each score once as feedback on its trace and once on its RAG span."""
    traces = in_mlflow.server.traces()
    for one in in_mlflow.scored:
        trace = traces[f"tr-{one.trace_id}"]
        told = {note["name"]: note["value"] for note in trace["assessments"]}
        assert told == one.scores
        assert len(trace["assessments"]) == len(one.scores)
        (span,) = [span for span in trace["spans"] if span["id"] == one.span_id]
        for name, value in one.scores.items():
            assert span["attributes"][f"rag.eval.{name}.score"] == value


def test_a_failing_claim_is_told(in_mlflow: InMlflow) -> None:
    """The rationale of a low faithfulness names the claim that nothing supports."""
    traces = in_mlflow.server.traces()
    claims = {one.trace_id: claim for one in in_mlflow.scored if (claim := one.failing_claim())}
    assert claims
    for trace_id, claim in claims.items():
        notes = {note["name"]: note for note in traces[f"tr-{trace_id}"]["assessments"]}
        assert f": {claim}" in notes["ragas.faithfulness"]["rationale"]


def test_bad_answers_are_found_by_the_search(in_mlflow: InMlflow) -> None:
    """MLflow's search finds the traces whose answer claims something false."""
    found = in_mlflow.server.traces("feedback.`ragas.faithfulness` = '0.0'")
    low = {one.trace_id for one in in_mlflow.scored if one.scores.get("ragas.faithfulness") == 0.0}
    assert low
    assert set(found) == {f"tr-{trace_id}" for trace_id in low}


def test_scores_sent_again_replace_themselves(in_mlflow: InMlflow) -> None:
    """Delivered a second time, a score replaces itself, with its new value."""
    one = next(one for one in in_mlflow.scored if "ragas.faithfulness" in one.scores)
    redeliver(MlflowSink(in_mlflow.server.url), one, value=0.25)
    trace = in_mlflow.server.traces()[f"tr-{one.trace_id}"]
    told = {note["name"]: note["value"] for note in trace["assessments"]}
    assert told == {**one.scores, "ragas.faithfulness": 0.25}
    assert len(trace["assessments"]) == len(one.scores)
    redeliver(MlflowSink(in_mlflow.server.url), one)
