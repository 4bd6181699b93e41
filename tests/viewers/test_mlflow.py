"""The demo in a real MLflow, read back by its client."""

from __future__ import annotations

from rag_eval_hooks.delivery.platforms.mlflow import MlflowSink
from tests.viewers.conftest import InMlflow


def test_every_score_is_an_assessment_and_an_attribute(in_mlflow: InMlflow) -> None:
    traces, claims = in_mlflow.server.traces(), 0
    for one in in_mlflow.scored:
        trace = traces[f"tr-{one.trace_id}"]
        notes = {note["name"]: note for note in trace["assessments"]}
        assert {name: note["value"] for name, note in notes.items()} == one.scores
        assert len(trace["assessments"]) == len(one.scores)
        (span,) = [span for span in trace["spans"] if span["id"] == one.span_id]
        for name, value in one.scores.items():
            assert span["attributes"][f"rag.eval.{name}.score"] == value
        if claim := one.failing_claim():
            claims += 1
            assert f": {claim}" in notes["ragas.faithfulness"]["rationale"]
    assert claims


def test_bad_answers_are_found_by_the_search(in_mlflow: InMlflow) -> None:
    found = in_mlflow.server.traces("feedback.`ragas.faithfulness` = '0.0'")
    low = {one.trace_id for one in in_mlflow.scored if one.scores.get("ragas.faithfulness") == 0.0}
    assert set(found) == {f"tr-{trace_id}" for trace_id in low} != set()


def test_scores_sent_again_replace_themselves(in_mlflow: InMlflow) -> None:
    one = next(one for one in in_mlflow.scored if "ragas.faithfulness" in one.scores)
    one.redeliver(MlflowSink(in_mlflow.server.url), value=0.25)
    notes = in_mlflow.server.traces()[f"tr-{one.trace_id}"]["assessments"]
    told = {note["name"]: note["value"] for note in notes}
    assert told == {**one.scores, "ragas.faithfulness": 0.25}
    assert len(notes) == len(told)
    one.redeliver(MlflowSink(in_mlflow.server.url))
