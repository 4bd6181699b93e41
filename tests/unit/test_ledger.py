"""The books."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.books.stats import Ledger, Stats

_ENTRIES = ("sampled_out", "dropped", "scored", "failed", "settle_dropped", "pending")


def _total(stats: Stats) -> int:
    counted = stats.scored + stats.sampled_out + stats.pending
    return counted + sum(stats.dropped.values()) + sum(stats.failed.values())


def _enter(ledger: Ledger, entry: str) -> None:
    if entry == "sampled_out":
        return ledger.sampled_out()
    if entry == "dropped":
        return ledger.dropped("queue_full")
    ticket = ledger.accepted()
    if entry == "scored":
        ledger.settle_scored(ticket)
    elif entry == "failed":
        ledger.settle_failed(ticket, "timeout")
    elif entry == "settle_dropped":
        ledger.settle_dropped(ticket, "shutdown")
    # Whoever comes second changes nothing.
    if entry in ("scored", "failed", "settle_dropped"):
        ledger.settle_failed(ticket, "judge_failed")
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
            ledger.settle_scored(ledger.accepted())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.snapshot({}) == Stats(offered=16_000, scored=16_000)


def test_waiting_is_for_what_was_accepted_before() -> None:
    """Waiting ends when all that was accepted before it is settled, whatever came later."""
    ledger = Ledger()
    assert ledger.wait(0)
    first = ledger.accepted()
    assert not ledger.wait(0.01)

    def settle() -> None:
        ledger.accepted()
        ledger.settle_scored(first)

    threading.Timer(0.02, settle).start()
    assert ledger.wait(5)
    assert ledger.snapshot({}).pending == 1


def test_waiting_heeds_the_oldest() -> None:
    """Later samples that are settled first do not end the waiting for an earlier one."""
    ledger = Ledger()
    ledger.accepted()
    ledger.settle_scored(ledger.accepted())
    assert not ledger.wait(0.01)
