"""Evaluators in the manner of LangSmith are metrics."""

from __future__ import annotations

import runpy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_hooks import Cause, Context, NotScored, RagEval, Sample, Score, evaluator_metric

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


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ("high", "The function returned str. Return a number from 0 to 1, True or False"),
        ([0.5], "The function returned list."),
        (7, "returned a number outside its scale. Return a number from 0 to 1"),
        (Score(value=7), "It returned 7."),
        (float("nan"), "It returned nan."),
        (None, "The function returned no score (None)."),
        ({"value": None}, "a mapping without `score`"),
    ],
)
def test_invalid_metric_result_error_names_valid_results(returned: Any, words: str) -> None:

    def own(_sample: Sample) -> Any:
        return returned

    with RagEval(metrics=[own], judge="heuristic") as evals:
        outcome = evals.evaluate(SAMPLE)["own.own"]
    assert isinstance(outcome, NotScored)
    assert words in outcome.detail
    assert "True or False" in outcome.detail


def test_a_traceback_of_a_users_metric_is_shown_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "rag_eval_hooks")
    with RagEval(metrics=[evaluator_metric(broken)], judge="heuristic") as evals:
        evals.evaluate(SAMPLE)
    shown = [one for one in caplog.records if one.exc_info and one.levelname == "DEBUG"]
    assert any("ValueError: the answer" in (one.exc_text or "") for one in shown)
    warned = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert any("ValueError" in line and "the answer" not in line for line in warned)


@pytest.mark.parametrize(("evaluator", "value"), [(exact, 1.0), (thorough, 0.25)])
def test_a_result_is_a_score(evaluator: Any, value: float) -> None:
    with RagEval(metrics=[evaluator_metric(evaluator)], judge="heuristic") as evals:
        outcome = evals.evaluate(SAMPLE)[f"evaluator.{evaluator.__name__}"]
    assert isinstance(outcome, Score)
    assert (outcome.value, outcome.annotator) == (value, evaluator.__name__)


@pytest.mark.parametrize(
    ("evaluator", "cause"), [(broken, Cause.METRIC_FAILED), (undecided, Cause.UNDEFINED)]
)
def test_no_result_has_a_cause(evaluator: Any, cause: Cause) -> None:
    with RagEval(metrics=[evaluator_metric(evaluator)], judge="heuristic") as evals:
        outcome = evals.evaluate(SAMPLE)[f"evaluator.{evaluator.__name__}"]
        incidents = evals.stats().incidents
    assert isinstance(outcome, NotScored)
    assert outcome.cause is cause
    assert bool(incidents) is (cause is Cause.METRIC_FAILED)


@pytest.mark.parametrize("prefix", ["", "async "])
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return {}['absent']", "the metric raised KeyError 'absent' at {file}:{last}"),
        ("return json.loads('no json')", "the metric raised JSONDecodeError at {file}:{last}"),
        ("return 7", "It returned 7."),
        ("return 'high'", "It is defined at {file}:{first}."),
    ],
)
@settings(max_examples=5, deadline=None)
@given(blank=st.integers(0, 30), name=st.from_regex(r"[a-z]{3,9}_metric", fullmatch=True))
def test_mistake_in_a_metric_names_its_file_and_line(
    prefix: str, body: str, words: str, blank: int, name: str, tmp_path_factory: Any
) -> None:
    file = tmp_path_factory.mktemp("own") / "metrics.py"
    file.write_text("\n" * blank + f"import json\n{prefix}def {name}(sample):\n    {body}\n")
    scope = runpy.run_path(str(file))
    with RagEval(metrics=[scope[name]], judge="heuristic", embedder="none") as evals:
        outcome = evals.evaluate(SAMPLE)[f"own.{name}"]
    assert isinstance(outcome, NotScored)
    assert words.format(file=file, first=blank + 2, last=blank + 3) in outcome.detail
