"""The arithmetic of weights, grades, ratings and composites."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks import Sample, Score
from rag_eval_hooks.findings import ChunkRelevance, Findings, Questions, Stance, Support
from rag_eval_hooks.metrics.formulas import grade, mean_rating, one_to_five, weighted_mean
from tests.golden.measure import measure

PARTS = "abcde"
values = st.dictionaries(st.sampled_from(PARTS), st.floats(0, 100))
weights = st.fixed_dictionaries({name: st.floats(0, 10) for name in PARTS})
flags = st.lists(st.booleans(), min_size=1, max_size=6)


@given(values, weights)
def test_a_weighted_mean_lies_among_its_parts(
    parts: dict[str, float], weighed: dict[str, float]
) -> None:
    """Between the least and the greatest part with a weight; absent when there is none."""
    mean = weighted_mean(parts, weighed)
    counted = [value for name, value in parts.items() if weighed[name] > 0]
    assert (mean is None) == (not counted)
    assert mean is None or min(counted) <= mean <= max(counted)


@given(values, weights, st.floats(0.01, 100))
def test_only_the_ratio_of_weights_counts(
    parts: dict[str, float], weighed: dict[str, float], factor: float
) -> None:
    """Weights are made to add up to 1, so that a common factor changes nothing."""
    weighed = {name: round(weight, 3) for name, weight in weighed.items()}
    mean = weighted_mean(parts, weighed)
    scaled = weighted_mean(parts, {name: weight * factor for name, weight in weighed.items()})
    assert scaled == (None if mean is None else pytest.approx(mean, abs=1e-6))


@given(st.dictionaries(st.sampled_from(PARTS), st.floats(0, 100), min_size=2), st.data())
def test_a_missing_part_is_as_one_without_weight(
    parts: dict[str, float], data: st.DataObject
) -> None:
    """Leaving a part out and giving it no weight are the same."""
    lost = data.draw(st.sampled_from(sorted(parts)))
    rest = {name: value for name, value in parts.items() if name != lost}
    even = dict.fromkeys(PARTS, 1.0)
    assert weighted_mean(rest, even) == weighted_mean(parts, {**even, lost: 0.0})


@given(st.floats(0, 100), st.floats(0, 100))
def test_grades_follow_values(one: float, other: float) -> None:
    """A higher value never has a worse grade."""
    low, high = sorted((one, other))
    assert grade(high) <= grade(low)
    assert grade(low) in "ABCDE"


def test_one_to_five_keeps_the_ends() -> None:
    """A share of 0 is 1, one of 1 is 5, and two thirds are 3.67."""
    assert (one_to_five(0), one_to_five(1)) == (1, 5)
    assert one_to_five(2 / 3) == pytest.approx(3.67, abs=0.005)


@given(st.lists(st.one_of(st.none(), st.integers(-5, 9)), max_size=4))
def test_invalid_ratings_change_nothing(ratings: list[int | None]) -> None:
    """Only the valid ratings make the mean, which lies in [0, 1]; without any there is none."""
    steps = (0, 2, 4)
    valid = [rating for rating in ratings if rating in steps]
    mean = mean_rating(ratings, steps)
    assert mean == mean_rating(valid, steps)
    assert (mean is None) == (not valid)
    assert mean is None or 0 <= mean <= 1


SAMPLE = Sample(question="q", contexts=("a", "b"), answer="a", reference="r")  # type: ignore[arg-type]
CLAIM_METRICS = ("graphrag.ragas_faithfulness", "whitepaper.faithfulness", "ragas.faithfulness")


def supported(verdicts: list[bool]) -> Findings:
    return Findings(
        answer_claims=tuple(map(str, range(len(verdicts)))),
        answer_support=tuple(Support((verdict, False)) for verdict in verdicts),
        stance=Stance(answer=False),
    )


def normalised(metric: str, findings: Findings) -> float:
    outcome = measure(metric, SAMPLE, findings)
    assert isinstance(outcome, Score)
    assert math.isfinite(outcome.value)
    return outcome.normalised


@pytest.mark.parametrize("metric", CLAIM_METRICS)
@given(verdicts=flags, seed=st.integers(0, 1000))
def test_the_order_of_claims_does_not_matter(metric: str, verdicts: list[bool], seed: int) -> None:
    """Any permutation of the claims gives the same score."""
    shuffled = random.Random(seed).sample(verdicts, len(verdicts))
    assert normalised(metric, supported(verdicts)) == normalised(metric, supported(shuffled))


@pytest.mark.parametrize("metric", CLAIM_METRICS)
@given(verdicts=flags)
def test_a_supported_claim_more_never_lowers_a_score(metric: str, verdicts: list[bool]) -> None:
    """Nor does an unsupported one more ever raise it."""
    score = normalised(metric, supported(verdicts))
    assert normalised(metric, supported([*verdicts, True])) >= score
    assert normalised(metric, supported([*verdicts, False])) <= score


@given(flags)
def test_three_suites_agree_on_faithfulness(verdicts: list[bool]) -> None:
    """On other scales it is the same share."""
    one, *others = (normalised(metric, supported(verdicts)) for metric in CLAIM_METRICS)
    assert others == [pytest.approx(one)] * 2


@given(st.lists(st.booleans(), min_size=2, max_size=6), st.floats(-1, 1))
def test_the_composite_lies_among_its_parts(useful: list[bool], cosine: float) -> None:
    """A weighted mean of metrics is never outside of what it is made of."""
    findings = supported(useful).merged(
        Findings(
            relevance=tuple(ChunkRelevance(flag, 50) for flag in useful),
            questions=Questions(("x",)),
            question_similarity=(cosine,),
            reference_claims=("y",),
            reference_support=(Support((useful[0], useful[1])),),
        )
    )
    outcome = measure("graphrag.ragas_score", SAMPLE, findings)
    assert isinstance(outcome, Score)
    assert set(outcome.parts) == {
        "faithfulness",
        "context_precision",
        "context_recall",
        "answer_relevance",
    }
    assert min(outcome.parts.values()) <= outcome.value <= max(outcome.parts.values())
