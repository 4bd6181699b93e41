"""The arithmetic of all suites."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.metrics.formulas import (
    average_precision,
    cosine,
    grade,
    mean_rating,
    one_to_five,
    share,
    weighted_mean,
)

FLAGS = st.lists(st.booleans())
VECTORS = st.lists(
    st.floats(-1e6, 1e6) | st.sampled_from([1e-300, 1e200, math.nan, math.inf]),
    min_size=3,
    max_size=3,
)
PARTS = "abcde"
VALUES = st.dictionaries(st.sampled_from(PARTS), st.floats(0, 100))
WEIGHTS = st.fixed_dictionaries({name: st.floats(0, 10) for name in PARTS})


@given(FLAGS)
def test_share_and_precision_lie_between_0_and_1(flags: list[bool]) -> None:
    assert share(flags) == share(sorted(flags))
    for value in (share(flags), average_precision(flags)):
        assert (value is None) == (not flags)
        assert value is None or (0 <= value <= 1 and (value == 0) == (not any(flags)))


def test_average_precision_of_known_rankings() -> None:
    assert average_precision([True, False, False]) == 1.0
    assert average_precision([False, False, True]) == pytest.approx(1 / 3)
    assert average_precision([True, False, True]) == pytest.approx((1 + 2 / 3) / 2)


@given(VECTORS, VECTORS)
def test_cosine_is_symmetric_and_finite_or_absent(left: list[float], right: list[float]) -> None:
    value = cosine(left, right)
    assert value == cosine(right, left)
    assert value is None or -1 <= value <= 1
    assert value is None or all(map(math.isfinite, [*left, *right]))


def test_cosine_of_known_vectors() -> None:
    assert cosine([1, 2], [2, 4]) == pytest.approx(1)
    assert cosine([1, 0], [-3, 0]) == pytest.approx(-1)
    assert cosine([0, 0], [1, 0]) is None
    with pytest.raises(ValueError, match=r"shorter|longer"):
        cosine([1], [1, 2])


@given(VALUES, WEIGHTS, st.floats(0.01, 100))
def test_weighted_mean_lies_among_the_weighed_parts(
    parts: dict[str, float], weights: dict[str, float], factor: float
) -> None:
    weights = {name: round(weight, 3) for name, weight in weights.items()}
    value = weighted_mean(parts, weights)
    counted = [part for name, part in parts.items() if weights[name] > 0]
    assert (value is None) == (not counted)
    assert value is None or min(counted) <= value <= max(counted)
    scaled = weighted_mean(parts, {name: weight * factor for name, weight in weights.items()})
    assert scaled == (None if value is None else pytest.approx(value, abs=1e-6))


@given(st.floats(0, 100), st.floats(0, 100))
def test_higher_value_never_has_a_worse_grade(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert grade(high) <= grade(low)
    assert grade(low) in "ABCDE"
    assert (one_to_five(0), one_to_five(1)) == (1, 5)
    assert one_to_five(low / 100) <= one_to_five(high / 100)


@given(st.lists(st.one_of(st.none(), st.integers(-5, 9)), max_size=4))
def test_invalid_ratings_change_nothing(ratings: list[int | None]) -> None:
    steps = (0, 2, 4)
    valid = [rating for rating in ratings if rating in steps]
    value = mean_rating(ratings, steps)
    assert value == mean_rating(valid, steps)
    assert (value is None) == (not valid)
    assert value is None or 0 <= value <= 1
