"""Evaluators in the manner of LangSmith are metrics."""

from __future__ import annotations

from typing import Any

import pytest

from rag_eval_hooks import Cause, Context, RagEval, Sample, evaluator_metric

SAMPLE = Sample(
    question="When?", contexts=(Context(text="In 1921."),), answer="In 1921.", reference="In 1921."
)


def exact(outputs: dict[str, Any], reference_outputs: dict[str, Any]) -> bool:
    return bool(outputs["answer"] == reference_outputs["answer"])


async def thorough(inputs: dict[str, Any], outputs: dict[str, Any], **_: Any) -> dict[str, Any]:
    found = outputs["answer"] in inputs["contexts"]
    return {"key": "thorough", "score": 0.25 if found else 0.0, "comment": "it is quoted"}


def broken(outputs: dict[str, Any]) -> float:
    raise ValueError("the answer")


def undecided(outputs: dict[str, Any]) -> dict[str, Any]:
    return {"key": "undecided", "score": None}


def test_a_traceback_of_a_users_metric_is_shown_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "rag_eval_hooks")
    with RagEval(metrics=[evaluator_metric(broken)], judge="heuristic") as evals:
        evals.evaluate(SAMPLE)
    shown = [one for one in caplog.records if one.exc_info and one.levelname == "DEBUG"]
    assert any("ValueError: the answer" in (one.exc_text or "") for one in shown)
    warned = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert any("ValueError" in line and "the answer" not in line for line in warned)


def test_a_result_is_a_score_and_no_result_has_a_cause() -> None:
    cases: list[tuple[Any, float | None, Cause | None]] = [
        (exact, 1.0, None),
        (thorough, 0.25, None),
        (broken, None, Cause.METRIC_FAILED),
        (undecided, None, Cause.UNDEFINED),
    ]
    for evaluator, value, cause in cases:
        with RagEval(metrics=[evaluator_metric(evaluator)], judge="heuristic") as evals:
            outcome = evals.evaluate(SAMPLE)[f"evaluator.{evaluator.__name__}"]
            assert bool(evals.stats().incidents) is (cause is Cause.METRIC_FAILED), evaluator
        assert (outcome.value, getattr(outcome, "cause", None)) == (value, cause), evaluator
        assert cause or outcome.annotator == evaluator.__name__, evaluator
