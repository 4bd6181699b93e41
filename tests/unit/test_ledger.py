"""The books."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.pipeline.ledger import Ledger, Stats

_ENTRIES = ("sampled_out", "dropped", "scored", "failed", "settle_dropped", "pending")


def _total(stats: Stats) -> int:
    counted = stats.scored + stats.sampled_out + stats.pending
    return counted + sum(stats.dropped.values()) + sum(stats.failed.values())


def _enter(ledger: Ledger, entry: str) -> None:
    if entry == "sampled_out":
        return ledger.sampled_out()
    if entry == "dropped":
        return ledger.dropped("queue_full")
    ledger.accepted()
    if entry == "scored":
        ledger.settle_scored()
    elif entry == "failed":
        ledger.settle_failed("timeout")
    elif entry == "settle_dropped":
        ledger.settle_dropped("shutdown")
    return None


@given(st.lists(st.sampled_from(_ENTRIES)))
def test_offered_is_the_sum_of_the_columns(entries: list[str]) -> None:
    """Whatever happens to samples, each stands in exactly one column."""
    ledger = Ledger()
    for entry in entries:
        _enter(ledger, entry)
    stats = ledger.snapshot({})
    assert stats.offered == len(entries) == _total(stats)
    assert stats.pending == entries.count("pending")


def test_books_are_exact_under_threads() -> None:
    """Entries of many threads are all counted."""
    ledger = Ledger()

    def work() -> None:
        for _ in range(2000):
            ledger.accepted()
            ledger.settle_scored()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.snapshot({}) == Stats(offered=16_000, scored=16_000)


def test_waiting_ends_when_nothing_is_pending() -> None:
    """Waiting for idleness tells whether it came within the time."""
    ledger = Ledger()
    assert ledger.wait_idle(0)
    ledger.accepted()
    assert not ledger.wait_idle(0.01)
    threading.Timer(0.02, ledger.settle_scored).start()
    assert ledger.wait_idle(5)
