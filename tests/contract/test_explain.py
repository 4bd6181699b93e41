"""Laws of explaining: the books in detail, for recent traces."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from rag_eval_hooks import RagEval, Sample, Status
from rag_eval_hooks.books import Books
from rag_eval_hooks.config import limits
from rag_eval_hooks.decision import Share
from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.findings import Findings
from rag_eval_hooks.request import Ending, Request
from rag_eval_hooks.sampling.rules import position
from rag_eval_hooks.score import Cause
from rag_eval_hooks.testing import MemorySink, ScriptedJudge
from tests.support.evaluation import faithful_judge, record_request, sample

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


def test_metrics_without_a_score_are_told_with_their_cause() -> None:
    def fail(_task: object) -> Findings:
        raise JudgeError("openai:m: HTTP 401")

    with RagEval(["ragas.faithfulness"], ScriptedJudge(fail)) as evals:
        evals.submit(one := sample())
        evals.flush(300)
        (told,) = evals.explain(one.sample_id)
    assert told.reason == "judge_failed"
    # Not its text: code of the application raised it.
    assert "the judge raised JudgeError at" in told.absent["ragas.faithfulness"]
    assert "rag-eval-hooks doctor" in str(told)


def test_a_captured_sample_is_found_by_its_own_id() -> None:
    provider, memory = TracerProvider(), MemorySink()
    with (
        RagEval(
            ["ragas.faithfulness"], faithful_judge(), sinks=memory, tracer_provider=provider
        ) as evals,
        provider.get_tracer("app").start_as_current_span("request") as span,
    ):
        record_request(evals, "one")
        record_request(evals, "two")
        evals.flush(300)
        first, second = (result.sample for result in memory.results)
        trace_id = f"{span.get_span_context().trace_id:032x}"
        assert first.trace_id == second.trace_id == trace_id
        told = evals.explain(trace_id)
        assert [one.sample_id for one in told] == [first.sample_id, second.sample_id]
        assert [evals.explain(one.sample_id) for one in (first, second)] == [told[:1], told[1:]]
        assert {one.outcome for one in told} == {"scored"}


def test_each_of_two_pending_samples_keeps_its_own_end() -> None:
    ledger = Books()
    slow, quick = (
        Request(key=TRACE, build=partial(Sample, question="q", sample_id=name))
        for name in ("slow", "quick")
    )
    for work in (slow, quick):
        ledger.accepted(work)
    for work in (slow, quick):
        ledger.begun(work)
    ledger.settled(quick, Ending.failed(Cause.UNDEFINED))
    ends = [(one.sample_id, one.outcome) for one in ledger.explain(TRACE)]
    assert ends == [("slow", "pending"), ("quick", "failed")]
    assert [one.outcome for one in ledger.explain("slow")] == ["pending"]


def test_an_id_may_be_written_in_any_way() -> None:
    written: Any
    for written in [
        TRACE.upper(),
        f"0x{TRACE}",
        f" {TRACE}\n",
        str(uuid.UUID(TRACE)),
        uuid.UUID(TRACE),
        uuid.UUID(TRACE).int,
        f"0X{TRACE.upper()}",
    ]:
        with RagEval(["ragas.faithfulness"], faithful_judge()) as evals:
            evals.submit(sample(trace_id=TRACE))
            evals.flush(300)
            assert [told.outcome for told in evals.explain(written)] == ["scored"]
            assert evals.feedback(written, score=1)


def test_an_id_of_ones_own_is_found_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EXPLAINED_REQUESTS", 1)
    with RagEval(["ragas.faithfulness"], faithful_judge()) as evals:
        evals.submit(sample(trace_id=TRACE, sample_id="Order-7"))
        evals.flush(300)
        assert outcomes(evals, "Order-7") == [("scored", "")]
        assert evals.explain("order-7") == ()
        evals.submit(sample(trace_id="f" * 32))
        assert evals.explain("Order-7") == ()
