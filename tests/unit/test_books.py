"""Laws of the books: one column a request, at every moment, within bounded memory."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.books import Books
from rag_eval_hooks.request import Column, Ending, Request
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import AnnotatorKind, Cause, NotScored, Score

SCORED = Ending(Column.SCORED)


def request(key: str = "", *ids: str, sample_id: str = "s") -> Request:
    return Request(
        key=key, ids=ids, build=lambda: Sample(question="q", sample_id=sample_id), trace_id=key
    )


def test_wait_returns_after_earlier_requests_settle() -> None:
    books = Books()
    assert books.wait(0)
    first, second, later = request(), request(), request()
    books.accepted(first)
    books.accepted(second)
    books.settled(second, SCORED)
    assert not books.wait(0.01)

    def settle() -> None:
        books.accepted(later)
        books.settled(first, SCORED)

    threading.Timer(0.02, settle).start()
    assert books.wait(120)
    assert books.snapshot({}).pending == 1


@given(
    traces=st.lists(st.sampled_from("abc"), min_size=1, max_size=200),
    shared=st.booleans(),
    explained=st.integers(1, 12),
)
def test_memory_of_explanations_is_bounded(traces: list[str], shared: bool, explained: int) -> None:
    books = Books(explained)
    known: list[tuple[str, str]] = []
    for number, key in enumerate(traces):
        sample_id = f"sample {number}"
        one = request(key, key, "run" if shared else f"run {number}", sample_id=sample_id)
        books.accepted(one)
        books.begun(one)
        books.settled(one, SCORED)
        known.append((key, sample_id))
    # Each remembered request has three ids.
    assert len(books._entries) <= explained
    assert sum(map(len, books._named.values())) <= explained * 3
    key, last = known[-1]
    assert [told.sample_id for told in books.explain(last)] == [last]
    told = [one.sample_id for one in books.explain(key)]
    assert told == [name for trace, name in known if trace == key][-len(told) :]
    assert 1 <= len(told) <= min(8, explained)


VERSIONS = st.text(max_size=20)


@given(version=VERSIONS, judged=st.booleans(), cause=st.sampled_from(list(Cause)))
def test_judge_failure_counts_as_partial_by_the_score_alone(
    version: str, judged: bool, cause: Cause
) -> None:
    score = Score(
        value=1.0, normalized=1.0, annotator_kind=AnnotatorKind.CODE, judged=judged, version=version
    )
    evaluation = Evaluation(
        sample=Sample(question="q"),
        outcomes={"a.one": score, "a.two": NotScored(cause)},
        probability=1.0,
        start=0,
        end=1,
    )
    of_judge = cause in (Cause.JUDGE_FAILED, Cause.JUDGE_UNAVAILABLE, Cause.TIMEOUT)
    partial = of_judge and not judged
    assert Ending.of(evaluation).entry == ("failed:partial" if partial else "scored")
