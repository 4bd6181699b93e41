"""Samples that an application submits: their spans, their scores and their mistakes."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import trace

from rag_eval_hooks import RagEval, Sample, Status
from rag_eval_hooks.books import Books
from rag_eval_hooks.decision import Share, position
from rag_eval_hooks.request import Column, Ending, Request
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.telemetry.telemetry import Telemetry
from tests.support.evaluation import faithful_judge, sample
from tests.support.otel import Spans
from tests.support.telemetry_world import attributes

ShutDown = Callable[[RagEval], RagEval]
texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40).filter(str.strip)


def evaluator(exported: Spans, **options: Any) -> RagEval:
    return RagEval(**{"metrics": [half], "tracer_provider": exported.provider, **options})


def half(_: Sample) -> float:
    return 0.5


@settings(max_examples=15)
@given(question=texts, contexts=st.lists(texts, min_size=1, max_size=3), answer=texts)
def test_submit_within_a_span_writes_the_spans_of_a_captured_request(
    question: str, contexts: list[str], answer: str
) -> None:
    spans = Spans()
    with evaluator(spans, capture_content=True) as evals:
        tracer = trace.get_tracer("application", tracer_provider=spans.provider)
        with tracer.start_as_current_span("POST /ask") as around:
            assert evals.submit({"question": question, "contexts": contexts, "answer": answer})
        assert evals.flush(60)
    rag, retrieval = spans.one("invoke_workflow"), spans.one("retrieval")
    assert rag.parent is not None
    assert retrieval.parent is not None
    assert rag.parent.span_id == around.get_span_context().span_id
    assert retrieval.parent.span_id == rag.context.span_id
    seen = attributes(rag)
    assert seen["rag.eval.status"] == "ok"
    assert seen["rag.eval.own.half.score"] == 0.5
    assert (seen["input.value"], seen["output.value"]) == (question, answer)
    prefix = "retrieval.documents.{}.document.content"
    texts_seen = [attributes(retrieval)[prefix.format(n)] for n in range(len(contexts))]
    assert texts_seen == contexts


def test_submitted_sample_names_its_span_wherever_its_evaluation_goes(
    shut_down_after: ShutDown,
) -> None:
    spans, seen = Spans(), list[Any]()
    evals = shut_down_after(evaluator(spans, sinks=[seen.append]))
    one = sample(latency=2.0, workflow="help", session_id="s1", status=Status.OK)
    assert evals.submit(one)
    assert evals.flush(60)
    rag, (evaluation,) = spans.one("invoke_workflow help"), seen
    assert evaluation.sample.sample_id == one.sample_id
    assert evaluation.sample.trace_id == format(rag.context.trace_id, "032x")
    assert evaluation.sample.span_id == format(rag.context.span_id, "016x")
    assert (rag.end_time or 0) - (rag.start_time or 0) == 2_000_000_000
    assert attributes(rag)["session.id"] == "s1"
    assert evals.explain(one.sample_id) == evals.explain(evaluation.sample.trace_id)
    assert evals.feedback(evaluation.sample.trace_id, score=1)


@pytest.mark.parametrize(
    ("mode", "rate", "written"),
    [("all", 0, 1), ("sampled", 0, 0), ("sampled", 1, 1), ("none", 1, 0), ("root", 1, 1)],
)
def test_submit_follows_the_setting_of_spans(
    mode: str, rate: float, written: int, shut_down_after: ShutDown
) -> None:
    spans = Spans()
    evals = shut_down_after(evaluator(spans, spans=mode, sample_rate=rate))
    assert evals.submit(sample()) == bool(rate)
    assert evals.flush(60)
    assert len(spans.named("invoke_workflow")) == written
    assert len(spans.named("retrieval")) == (written if mode != "root" else 0)


# Explanations: the books in detail, for recent traces.


TRACE = "0af7651916cd43dd8448eb211c80319c"


def fates(evals: RagEval, key: Any) -> list[tuple[str, str]]:
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
        assert fates(evals, taken[0]) == [("scored", "")]
        assert fates(evals, taken[1]) == [("failed", "missing_input")]
        assert fates(evals, taken[2]) == [("dropped", "closed")]
        assert fates(evals, out) == [("sampled_out", "ratio")]
        assert evals.explain(out)[0].probability == 0.5
        assert fates(evals, "f" * 32) == fates(evals, True) == []
        assert "sample_rate" in str(evals.explain(out)[0])
    evals.submit(sample(trace_id=taken[3]))
    assert fates(evals, taken[3]) == [("dropped", "shutdown")]


def test_end_that_a_signal_handler_interrupts_is_booked() -> None:
    with RagEval([half], sample_rate=0.0) as evals:
        settled = mock.patch.object(Telemetry, "settled", side_effect=[KeyboardInterrupt, 0, 0])
        with settled, pytest.raises(KeyboardInterrupt):
            evals.submit(sample())
        assert evals.stats().sampled_out == 1


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
            key=key, ids=(key, "run" if shared else f"run {number}", name), build=None, trace_id=key
        )
        books.accepted(one)
        evaluation = Evaluation(sample=Sample(question="q", sample_id=name), outcomes={})
        books.settled(one, Ending(Column.SCORED, evaluation=evaluation))
        known.append((key, name))
    # Each remembered request has three ids.
    assert len(books._entries) <= explained
    assert sum(len(ids) for _, ids in books._entries.values()) <= explained * 3
    key, last = known[-1]
    assert [told.sample_id for told in books.explain(last)] == [last]
    told = [one.sample_id for one in books.explain(key)]
    assert told == [name for trace, name in known if trace == key][-len(told) :]
    assert 1 <= len(told) <= min(8, explained)
