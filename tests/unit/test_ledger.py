"""Laws of the statistics: one column a request, at every moment."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.books.stats import Ledger, Stats
from rag_eval_hooks.ending import Column, Ending
from rag_eval_hooks.pipeline.observers import Observers
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause
from rag_eval_hooks.work import Work

_ENDINGS = (
    Ending(Column.SCORED),
    Ending(Column.SAMPLED_OUT),
    Ending.dropped("queue_full"),
    Ending.failed(Cause.TIMEOUT),
    None,
)


def _work() -> Work:
    return Work("", lambda: Sample(question="q"))


def _total(stats: Stats) -> int:
    counted = stats.scored + stats.sampled_out + stats.pending
    return counted + sum(stats.dropped.values()) + sum(stats.failed.values())


@given(st.lists(st.tuples(st.booleans(), st.lists(st.sampled_from(_ENDINGS), max_size=3))))
def test_offered_is_the_sum_of_the_columns(
    requests: list[tuple[bool, list[Ending | None]]],
) -> None:
    """Each request stands in one column, however often it is settled: the first ending counts."""
    ledger = Ledger()
    observers = Observers((), ledger)
    ends: list[Ending | None] = []
    for accepted, endings in requests:
        work = _work()
        if accepted:
            observers.accepted(work)
        for ending in filter(None, endings):
            observers.settle(work, ending)
        first = next(filter(None, endings), None)
        if accepted or first is not None:
            ends.append(first)
    stats = ledger.snapshot({})
    assert stats.offered == len(ends) == _total(stats)
    assert stats.pending == ends.count(None)
    assert stats.scored == ends.count(_ENDINGS[0])
    assert stats.dropped.get("queue_full", 0) == ends.count(_ENDINGS[2])


def test_counts_are_exact_under_threads() -> None:
    """Requests of many threads are all counted."""
    ledger = Ledger()
    observers = Observers((), ledger)

    def run() -> None:
        for _ in range(2000):
            work = _work()
            observers.accepted(work)
            observers.settle(work, Ending(Column.SCORED))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.snapshot({}) == Stats(offered=16_000, scored=16_000)


def test_waiting_is_for_what_was_accepted_before() -> None:
    """Waiting ends once all requests accepted before it are settled, whatever came later."""
    ledger = Ledger()
    assert ledger.wait(0)
    first = _work()
    ledger.accepted(first)
    assert not ledger.wait(0.01)

    def settle() -> None:
        ledger.accepted(_work())
        ledger.settled(first, Ending(Column.SCORED))

    threading.Timer(0.02, settle).start()
    assert ledger.wait(120)
    assert ledger.snapshot({}).pending == 1


def test_waiting_heeds_the_oldest() -> None:
    """Later requests that are settled first do not end the waiting for an earlier one."""
    ledger = Ledger()
    ledger.accepted(_work())
    second = _work()
    ledger.accepted(second)
    ledger.settled(second, Ending(Column.SCORED))
    assert not ledger.wait(0.01)
