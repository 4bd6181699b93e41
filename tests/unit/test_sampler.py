"""Which interactions are evaluated."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.pipeline.sampler import RatioSampler

keys = st.text(min_size=1)


@given(keys, st.floats(0, 1), st.floats(0, 1))
def test_lower_rates_are_subsets(key: str, one: float, other: float) -> None:
    """What a lower rate chooses, every higher rate chooses too."""
    low, high = sorted((one, other))
    if RatioSampler(low).decide(key).sampled:
        assert RatioSampler(high).decide(key).sampled


@given(keys)
def test_the_ends_are_exact(key: str) -> None:
    """Rate 1 takes all, rate 0 none."""
    assert RatioSampler(1.0).decide(key).sampled
    assert not RatioSampler(0.0).decide(key).sampled


def test_the_rate_is_realised() -> None:
    """The share of random trace ids that is chosen is the rate, within five standard errors."""
    ids = [uuid.UUID(int=n * 2**64 + 7919 * n).hex for n in range(20_000)]
    chosen = sum(RatioSampler(0.1).decide(key).sampled for key in ids)
    assert abs(chosen - 2000) < 5 * (20_000 * 0.1 * 0.9) ** 0.5


def test_the_decision_tells_probability_and_reason() -> None:
    """Every decision carries the inclusion probability and why."""
    decision = RatioSampler(0.0).decide("k")
    assert (decision.probability, decision.reason) == (0.0, "sampled_out")
    assert RatioSampler(1.0).decide("k").reason == "ratio"


def test_the_salt_makes_choices_independent() -> None:
    """Another salt makes another choice of the same size."""
    ids = [str(n) for n in range(2000)]
    one = {k for k in ids if RatioSampler(0.5, "a").decide(k).sampled}
    other = {k for k in ids if RatioSampler(0.5, "b").decide(k).sampled}
    assert 300 < len(one & other) < 700
