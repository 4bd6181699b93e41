"""Laws of the pauses after failures."""

from __future__ import annotations

from rag_eval_hooks.backoff import Backoff


def test_pauses_double_up_to_a_bound_and_are_spread() -> None:
    """The n-th pause is in the upper half of 0.5 * 2^n seconds, at most 15, however many fail."""
    histories = [Backoff() for _ in range(50)]
    for number in range(1100):
        longest = min(0.5 * 2.0 ** min(number, 10), 15.0)
        pauses = [one.failed() for one in histories]
        assert all(longest / 2 <= pause <= longest for pause in pauses)
        assert len(set(pauses)) > 1


def test_a_success_clears_the_account() -> None:
    backoff = Backoff()
    assert not backoff.is_failing
    for _ in range(8):
        backoff.failed()
    assert backoff.is_failing
    backoff.succeeded()
    assert not backoff.is_failing
    assert backoff.failed() <= 0.5
