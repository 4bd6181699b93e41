"""Pass and fail by thresholds."""

from __future__ import annotations

import pytest

from rag_eval_hooks import ConfigError, RagEval, RagEvalConfig
from rag_eval_hooks.metrics import ALL_METRICS
from rag_eval_hooks.score import UNIT, Cause, NotScored, Outcome
from rag_eval_hooks.telemetry.thresholds import Thresholds

HALF = UNIT.score(0.5)
FAILED = NotScored(Cause.JUDGE_FAILED)
ABSENT = NotScored(Cause.UNDEFINED)


def thresholds(**limits: float) -> Thresholds:
    return Thresholds({f"ragas.{name}": limit for name, limit in limits.items()}, ALL_METRICS)


@pytest.mark.parametrize(
    ("metric", "limit", "passes"),
    [
        ("faithfulness", 0.4, True),
        ("faithfulness", 0.5, True),
        ("faithfulness", 0.6, False),
        ("noise_sensitivity", 0.4, False),
        ("noise_sensitivity", 0.5, True),
        ("noise_sensitivity", 0.6, True),
    ],
)
def test_direction_is_the_metrics_own(metric: str, limit: float, passes: bool) -> None:
    """A score passes at its threshold and on the metric's good side of it."""
    outcomes = {f"ragas.{metric}": HALF}
    assert thresholds(**{metric: limit}).verdicts(outcomes) == {f"ragas.{metric}": passes}


@pytest.mark.parametrize(
    ("outcomes", "passed"),
    [
        ({"ragas.faithfulness": HALF, "ragas.context_recall": HALF}, True),
        ({"ragas.faithfulness": HALF, "ragas.context_recall": ABSENT}, True),
        ({"ragas.faithfulness": HALF, "ragas.context_recall": FAILED}, None),
        ({"ragas.faithfulness": UNIT.score(0), "ragas.context_recall": FAILED}, False),
        ({"ragas.faithfulness": ABSENT}, None),
        ({"lexical.exact_match": HALF}, None),
        ({}, None),
    ],
)
def test_a_sample_passes_when_all_is_known_and_good(
    outcomes: dict[str, Outcome], passed: bool | None
) -> None:
    """One fail fails; what should have been scored and was not is no pass."""
    limits = thresholds(faithfulness=0.5, context_recall=0.5)
    assert limits.passed(outcomes, limits.verdicts(outcomes)) is passed


@pytest.mark.parametrize(
    "limits", [{"ragas.faithfulness": 1.1}, {"ragas.faithful": 0.5}, {"ragas.faithfulness": "high"}]
)
def test_a_wrong_threshold_is_an_error_at_start_up(limits: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="thresholds"):
        RagEval(config=RagEvalConfig(thresholds=limits))


def test_a_threshold_of_a_metric_that_is_not_measured_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"thresholds is 'ragas\.faithfulness'"):
        RagEval(metrics="lexical", config=RagEvalConfig(thresholds={"ragas.faithfulness": 0.5}))
