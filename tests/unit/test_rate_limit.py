"""At most so many in any second and minute, and just as many under load."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.sampling.rate_limit import RateLimit


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def admitted_at(limits: dict[str, int], times: list[float]) -> list[float]:
    clock = Hand()
    limit = RateLimit(limits, clock)
    let_in = []
    for time in times:
        clock.now = time
        if limit.admit() is not None:
            let_in.append(time)
    return let_in


def most_in(times: list[float], span: float) -> int:
    return max((sum(t <= other < t + span for other in times) for t in times), default=0)


gaps = st.lists(st.floats(0, 3, allow_nan=False), max_size=80)


@given(st.integers(1, 5), st.integers(1, 20), gaps)
def test_no_window_holds_more_than_the_limit(second: int, minute: int, gaps: list[float]) -> None:
    times = [sum(gaps[: n + 1]) for n in range(len(gaps))]
    let_in = admitted_at({"second": second, "minute": minute}, times)
    assert most_in(let_in, 1.0) <= second
    assert most_in(let_in, 60.0) <= minute


@given(st.integers(1, 5), gaps)
def test_nothing_is_refused_that_there_is_room_for(second: int, gaps: list[float]) -> None:
    times = [sum(gaps[: n + 1]) for n in range(len(gaps))]
    clock = Hand()
    limit = RateLimit({"second": second}, clock)
    let_in: list[float] = []
    for time in times:
        clock.now = time
        if limit.admit() is not None:
            let_in.append(time)
        else:
            assert sum(time - 1.0 < other for other in let_in) == second


@given(
    st.integers(1, 8), st.lists(st.floats(0, 2, allow_nan=False), max_size=120), st.integers(0, 99)
)
def test_those_admitted_stand_for_those_refused(second: int, gaps: list[float], after: int) -> None:
    clock = Hand()
    limit = RateLimit({"second": second}, clock)
    weights, asked = [], 0
    for gap in [*gaps, *([1.5] * (after and 35))]:
        clock.now += gap
        asked += 1
        share = limit.admit()
        if share is not None:
            assert 0.0 < share <= 1.0
            weights.append(1.0 / share)
    assert sum(weights) <= asked + 1e-6
    if after:
        refused = asked - len(weights)
        assert sum(weights) >= asked - 0.05 * refused - 0.01
