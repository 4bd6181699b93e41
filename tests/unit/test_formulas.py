"""The arithmetic that several suites share."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.metrics.formulas import average_precision, cosine, share

VECTORS = st.lists(
    st.floats(-1e6, 1e6) | st.sampled_from([1e-300, 1e200, math.nan, math.inf]),
    min_size=3,
    max_size=3,
)


@given(st.lists(st.booleans()))
def test_share_and_precision_lie_between_0_and_1(flags: list[bool]) -> None:
    for value in (share(flags), average_precision(flags)):
        assert (value is None) == (not flags)
        assert value is None or (0 <= value <= 1 and (value == 0) == (not any(flags)))


@given(VECTORS, VECTORS)
def test_cosine_is_symmetric_and_finite_or_absent(left: list[float], right: list[float]) -> None:
    value = cosine(left, right)
    assert value == cosine(right, left)
    assert value is None or (-1 <= value <= 1 and all(map(math.isfinite, [*left, *right])))


def test_cosine_of_known_vectors() -> None:
    assert cosine([1, 2], [2, 4]) == pytest.approx(1)
    assert cosine([1, 0], [-3, 0]) == pytest.approx(-1)
    assert cosine([0, 0], [1, 0]) is None
