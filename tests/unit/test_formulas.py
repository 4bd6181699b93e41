"""The arithmetic."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.metrics.formulas import average_precision, cosine, mean, share

flags = st.lists(st.booleans())
floats = st.floats(-1e6, 1e6)


@given(flags)
def test_share_is_a_share(values: list[bool]) -> None:
    """A share lies in [0, 1], and is absent for no items."""
    value = share(values)
    assert (value is None) == (not values)
    assert value is None or 0 <= value <= 1


@given(flags)
def test_share_ignores_order(values: list[bool]) -> None:
    """A share is the same in every order."""
    shuffled = sorted(values)
    assert share(values) == share(shuffled)


@given(st.lists(st.booleans(), min_size=1))
def test_average_precision_range(relevant: list[bool]) -> None:
    """Average precision is 0 without relevant items, else above 0 and at most 1."""
    value = average_precision(relevant)
    assert value is not None
    assert (value == 0) == (not any(relevant))
    assert 0 <= value <= 1


@given(st.lists(st.booleans(), min_size=2), st.data())
def test_average_precision_rises_when_a_relevant_item_moves_up(
    relevant: list[bool], data: st.DataObject
) -> None:
    """Swapping a relevant item with the irrelevant one above it never lowers the value."""
    place = data.draw(st.integers(1, len(relevant) - 1))
    if relevant[place] and not relevant[place - 1]:
        better = list(relevant)
        better[place - 1], better[place] = True, False
        assert (average_precision(better) or 0) > (average_precision(relevant) or 0)


def test_average_precision_of_known_rankings() -> None:
    """First of three is 1, last of three is a third, first and last is the mean of 1 and 2/3."""
    assert average_precision([True, False, False]) == 1.0
    assert average_precision([False, False, True]) == pytest.approx(1 / 3)
    assert average_precision([True, False, True]) == pytest.approx((1 + 2 / 3) / 2)
    assert average_precision([]) is None


@given(st.lists(floats, min_size=1))
def test_mean_lies_between_its_values(values: list[float]) -> None:
    """A mean lies between the least and the greatest value."""
    value = mean(values)
    assert value is not None
    assert min(values) - 1e-6 <= value <= max(values) + 1e-6


@given(st.lists(floats, min_size=3, max_size=3), st.lists(floats, min_size=3, max_size=3))
def test_cosine_is_symmetric_and_bounded(left: list[float], right: list[float]) -> None:
    """A cosine is the same both ways, lies in [-1, 1], and is absent without a direction."""
    value = cosine(left, right)
    assert value == cosine(right, left)
    assert value is None or (-1 <= value <= 1 and math.isfinite(value))


def test_cosine_of_known_vectors() -> None:
    """Equal directions give 1, opposite -1, a zero vector none, unequal lengths an error."""
    assert cosine([1, 2], [2, 4]) == pytest.approx(1)
    assert cosine([1, 0], [-3, 0]) == pytest.approx(-1)
    assert cosine([0, 0], [1, 0]) is None
    with pytest.raises(ValueError, match=r"shorter|longer"):
        cosine([1], [1, 2])
