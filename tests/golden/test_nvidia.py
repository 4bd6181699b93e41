"""The examples of the Nvidia metrics, and ratings that are invalid."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from rag_eval_hooks import NotScored, Sample, Score
from rag_eval_hooks.findings import Findings, Pair
from rag_eval_hooks.score import Cause
from tests.golden.measure import measure, value

EINSTEIN = Sample(
    question="When and where was Albert Einstein born?",
    contexts=(  # type: ignore[arg-type]
        "Albert Einstein was born March 14, 1879.",
        "Albert Einstein was born at Ulm, in Württemberg, Germany.",
    ),
    answer="Albert Einstein was born in 1879.",
    reference="Albert Einstein was born in 1879.",
)
METRICS = [
    ("nvidia.answer_accuracy", "accuracy_ratings", (0, 2, 4)),
    ("nvidia.context_relevance", "context_ratings", (0, 1, 2)),
    ("nvidia.response_groundedness", "groundedness_ratings", (0, 1, 2)),
]


def graded(field: str, pair: Pair) -> Findings:
    kinds: dict[str, Any] = {field: pair}
    return Findings(**kinds)


CASES = [
    (metric, field, pair, sum(pair) / 2 / max(steps))
    for metric, field, steps in METRICS
    for pair in itertools.product(steps, repeat=2)
]


@pytest.mark.parametrize(("metric", "field", "pair", "expected"), CASES)
def test_two_ratings_are_averaged(metric: str, field: str, pair: Pair, expected: float) -> None:
    """Each by its highest step; two full marks give 1.0, as in the seed's three examples."""
    assert value(measure(metric, EINSTEIN, graded(field, pair))) == expected


@pytest.mark.parametrize(("metric", "field", "steps"), METRICS)
@pytest.mark.parametrize("invalid", [None, 3, 5, -1])
def test_an_invalid_rating_is_left_out(
    metric: str, field: str, steps: tuple[int, ...], invalid: int | None
) -> None:
    for valid, pair in itertools.product(steps, (0, 1)):
        ratings = (valid, invalid) if pair else (invalid, valid)
        outcome = measure(metric, EINSTEIN, graded(field, ratings))
        assert isinstance(outcome, Score)
        assert (outcome.value, len(outcome.warnings)) == (valid / max(steps), 1)


@pytest.mark.parametrize(("metric", "field", "steps"), METRICS)
@pytest.mark.parametrize("pair", [(None, None), (None, 3), (7, -2)])
def test_two_invalid_ratings_are_a_failure(
    metric: str, field: str, steps: tuple[int, ...], pair: Pair
) -> None:
    outcome = measure(metric, EINSTEIN, graded(field, pair))
    assert isinstance(outcome, NotScored)
    assert outcome.cause is Cause.JUDGE_FAILED
