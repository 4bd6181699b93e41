"""When a judge is asked no more, and when again: by a clock of the test's."""

from __future__ import annotations

import pytest

from rag_eval_hooks.calls import BreakerState
from rag_eval_hooks.judges.calls.limits import Breaker


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def opened(clock: Clock) -> Breaker:
    breaker = Breaker(3, 10.0, clock)
    assert [breaker.failed(probe=False) for _ in range(3)] == [False, False, True]
    return breaker


def test_it_opens_after_failures_in_a_row() -> None:
    """One reply among failures keeps it closed."""
    breaker = Breaker(3, 10.0, Clock())
    for _ in range(5):
        breaker.failed(probe=False)
        breaker.failed(probe=False)
        breaker.replied()
    assert breaker.state is BreakerState.CLOSED
    assert opened(Clock()).state is BreakerState.OPEN


def test_one_probe_is_let_through_after_the_pause() -> None:
    """Not before the pause is over, and no second one while the first is out."""
    clock = Clock()
    breaker = opened(clock)
    assert not breaker.probe()
    clock.now += 10.0
    assert breaker.state is BreakerState.HALF_OPEN
    assert [breaker.probe(), breaker.probe()] == [True, False]
    breaker.replied()
    assert breaker.is_closed


def test_the_pause_doubles_up_to_six_times() -> None:
    """Each probe that fails doubles the pause; a reply brings the first one back."""
    clock = Clock()
    breaker = opened(clock)
    clock.now += 10.0
    for pause in (20.0, 40.0, 60.0, 60.0):
        assert breaker.probe()
        assert not breaker.failed(probe=True)
        clock.now += pause - 0.5
        assert breaker.state is BreakerState.OPEN
        clock.now += 0.5
    breaker.replied()
    for _ in range(3):
        breaker.failed(probe=False)
    clock.now += 10.0
    assert breaker.probe()


def test_a_cancelled_probe_tells_nothing() -> None:
    """Another probe may be made at once."""
    clock = Clock()
    breaker = opened(clock)
    clock.now += 10.0
    assert breaker.probe()
    breaker.abandon_probe()
    assert breaker.probe()


@pytest.mark.parametrize("late", [1, 20])
def test_failures_of_calls_from_before_it_opened_change_nothing(late: int) -> None:
    """Calls that were in flight when it opened do not prolong the pause."""
    clock = Clock()
    breaker = opened(clock)
    clock.now += 9.0
    assert not any(breaker.failed(probe=False) for _ in range(late))
    clock.now += 1.0
    assert breaker.probe()
