"""At most so many in any second and minute, and just as many under load."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.sampling.rate_limit import RateLimit

gaps = st.lists(st.floats(0, 3, allow_nan=False), max_size=80)


@given(st.integers(1, 5), st.integers(1, 20), gaps)
def test_limit_refuses_exactly_what_a_full_window_leaves_no_room_for(
    second: int, minute: int, gaps: list[float]
) -> None:
    now = [0.0]
    limit = RateLimit({"second": second, "minute": minute}, lambda: now[0])
    let_in: list[float] = []
    for number in range(len(gaps)):
        now[0] = sum(gaps[: number + 1])
        in_second, in_minute = (
            sum(now[0] - span < other for other in let_in) for span in (1.0, 60.0)
        )
        is_full = in_second == second or in_minute == minute
        assert (limit.admit() is None) is is_full
        if not is_full:
            let_in.append(now[0])


@given(
    st.integers(1, 8), st.lists(st.floats(0, 2, allow_nan=False), max_size=120), st.integers(0, 99)
)
def test_those_admitted_stand_for_those_refused(second: int, gaps: list[float], after: int) -> None:
    now = [0.0]
    limit = RateLimit({"second": second}, lambda: now[0])
    weights, asked = [], 0
    for gap in [*gaps, *([1.5] * (after and 35))]:
        now[0] += gap
        asked += 1
        share = limit.admit()
        if share is not None:
            assert 0.0 < share <= 1.0
            weights.append(1.0 / share)
    assert sum(weights) <= asked + 1e-6
    if after:
        refused = asked - len(weights)
        assert sum(weights) >= asked - 0.05 * refused - 0.01
