"""Law of the pauses after failures."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.backoff import pause_after


@given(st.integers(1, 2000))
def test_pauses_double_up_to_a_bound_and_are_spread(failures: int) -> None:
    longest = min(0.5 * 2.0 ** min(failures - 1, 10), 15.0)
    pauses = {pause_after(failures) for _ in range(20)}
    assert all(longest / 2 <= pause <= longest for pause in pauses)
    assert len(pauses) > 1
