"""Laws of explaining: the books in detail, for recent traces."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks import RagEval, Sample, Status
from rag_eval_hooks.books import Books
from rag_eval_hooks.decision import Share
from rag_eval_hooks.request import Column, Ending, Request
from rag_eval_hooks.sampling.rules import position
from tests.support.evaluation import faithful_judge, sample

TRACE = "0af7651916cd43dd8448eb211c80319c"


def outcomes(evals: RagEval, key: str) -> list[tuple[str, str]]:
    return [(told.outcome, told.reason) for told in evals.explain(key)]


def test_each_fate_is_told() -> None:
    keys = [f"{n:032x}" for n in range(50)]
    out = next(key for key in keys if not Share(0.5).includes(position(key)))
    taken = [key for key in keys if Share(0.5).includes(position(key))]
    with RagEval(["ragas.faithfulness"], faithful_judge(), 0.5) as evals:
        evals.submit(sample(trace_id=taken[0]))
        evals.submit(sample(trace_id=taken[1], contexts=None))
        evals.submit(sample(trace_id=taken[2], status=Status.CLOSED))
        evals.submit(sample(trace_id=out))
        evals.flush(300)
        assert outcomes(evals, taken[0]) == [("scored", "")]
        assert outcomes(evals, taken[1]) == [("failed", "missing_input")]
        assert outcomes(evals, taken[2]) == [("dropped", "closed")]
        assert outcomes(evals, out) == [("sampled_out", "ratio")]
        assert evals.explain(out)[0].probability == 0.5
        assert outcomes(evals, "f" * 32) == []
        assert "sample_rate" in str(evals.explain(out)[0])
    evals.submit(sample(trace_id=taken[3]))
    assert outcomes(evals, taken[3]) == [("dropped", "shutdown")]


def test_an_id_may_be_written_in_any_way() -> None:
    id_ = uuid.UUID(TRACE)
    ways: list[Any] = [TRACE.upper(), f"0x{TRACE}", f" {TRACE}\n", str(id_), id_, id_.int]
    with RagEval(["ragas.faithfulness"], faithful_judge()) as evals:
        evals.submit(sample(trace_id=TRACE))
        evals.flush(300)
        for written in [*ways, f"0X{TRACE.upper()}"]:
            assert [told.outcome for told in evals.explain(written)] == ["scored"], written
            assert evals.feedback(written, score=1)


@given(
    traces=st.lists(st.sampled_from("abc"), min_size=1, max_size=200),
    shared=st.booleans(),
    explained=st.integers(1, 12),
)
def test_memory_of_explanations_is_bounded(traces: list[str], shared: bool, explained: int) -> None:
    books = Books(explained)
    known: list[tuple[str, str]] = []
    for number, key in enumerate(traces):
        name = f"sample {number}"
        one = Request(
            key=key,
            ids=(key, "run" if shared else f"run {number}"),
            build=partial(Sample, question="q", sample_id=name),
            trace_id=key,
        )
        books.accepted(one)
        books.begun(one)
        books.settled(one, Ending(Column.SCORED))
        known.append((key, name))
    # Each remembered request has three ids.
    assert len(books._entries) <= explained
    assert sum(map(len, books._named.values())) <= explained * 3
    key, last = known[-1]
    assert [told.sample_id for told in books.explain(last)] == [last]
    told = [one.sample_id for one in books.explain(key)]
    assert told == [name for trace, name in known if trace == key][-len(told) :]
    assert 1 <= len(told) <= min(8, explained)
