"""Laws of explaining: the books in detail, for recent traces."""

from __future__ import annotations

import threading

from rag_eval_hooks import RagEval, RagEvalConfig, RagEvalError, Sample, Status
from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.findings import Findings
from rag_eval_hooks.pipeline.explanations import ADVICE, Explanation, Explanations, advice_for
from rag_eval_hooks.pipeline.sampler import Share, position
from rag_eval_hooks.score import Cause
from rag_eval_hooks.tasks import Decompose, Verify
from rag_eval_hooks.testing import ScriptedJudge, Support

GOOD = ScriptedJudge(Findings(answer_claims=("a",), answer_support=(Support((True,)),)))


def sample(trace_id: str | None = None, **fields: object) -> Sample:
    values = {"question": "q", "contexts": ("c",), "answer": "a", "trace_id": trace_id, **fields}
    return Sample(**values)  # type: ignore[arg-type]


def outcomes(evals: RagEval, key: str) -> list[tuple[str, str]]:
    return [(told.outcome, told.reason) for told in evals.explain(key)]


def test_each_fate_is_told() -> None:
    """Scored, failed, dropped and sampled out samples are found by trace id, with the reason."""
    keys = [f"{n:032x}" for n in range(50)]
    out = next(key for key in keys if not Share(0.5).holds(position(key)))
    taken = [key for key in keys if Share(0.5).holds(position(key))]
    with RagEval(["ragas.faithfulness"], GOOD, 0.5) as evals:
        evals.offer(sample(taken[0]))
        evals.offer(sample(taken[1], contexts=None))
        evals.offer(sample(taken[2], status=Status.CLOSED))
        evals.offer(sample(out))
        evals.flush(10)
        assert outcomes(evals, taken[0]) == [("scored", "")]
        assert outcomes(evals, taken[1]) == [("failed", "missing_input")]
        assert outcomes(evals, taken[2]) == [("dropped", "closed")]
        assert outcomes(evals, out) == [("sampled_out", "")]
        assert outcomes(evals, "f" * 32) == []
        assert "sample_rate" in str(evals.explain(out)[0])
    evals.offer(sample(taken[3]))
    assert outcomes(evals, taken[3]) == [("dropped", "shutdown")]


def test_what_waits_is_pending_and_then_is_not() -> None:
    """A sample under evaluation is pending, and becomes what it becomes, in one entry."""
    begun, go = threading.Event(), threading.Event()

    def wait(task: Decompose | Verify) -> Findings:
        begun.set()
        go.wait(10)
        return Findings(answer_claims=())

    one = sample()
    with RagEval(["ragas.faithfulness"], ScriptedJudge(wait)) as evals:  # type: ignore[arg-type]
        evals.offer(one)
        begun.wait(10)
        assert outcomes(evals, one.sample_id) == [("pending", "")]
        go.set()
        evals.flush(10)
        assert outcomes(evals, one.sample_id) == [("failed", "undefined")]


def test_metrics_without_a_score_are_told_with_their_cause() -> None:
    """Beside the outcome stands why each metric has no score."""

    def fail(_task: object) -> Findings:
        raise JudgeError("openai:m: HTTP 401")

    with RagEval(["ragas.faithfulness"], ScriptedJudge(fail)) as evals:
        evals.offer(one := sample())
        evals.flush(10)
        (told,) = evals.explain(one.sample_id)
    assert told.reason == "judge_failed"
    assert "HTTP 401" in told.absent["ragas.faithfulness"]
    assert "rag-eval-hooks doctor" in str(told)


def test_samples_of_one_trace_are_all_told() -> None:
    """Several samples of one trace stand in their order."""
    with RagEval(["ragas.faithfulness"], GOOD) as evals:
        evals.offer(sample("a" * 32))
        evals.flush(10)
        evals.offer(sample("a" * 32, contexts=None))
        evals.flush(10)
        assert [told.outcome for told in evals.explain("a" * 32)] == ["scored", "failed"]


def test_memory_is_bounded() -> None:
    """Only the last traces are remembered, and of each a few samples."""
    config = RagEvalConfig(max_explained=3)
    with RagEval(["ragas.faithfulness"], GOOD, config=config) as evals:
        samples = [sample() for _ in range(5)]
        for one in samples:
            evals.offer(one)
        evals.flush(10)
        assert [len(evals.explain(one.sample_id)) for one in samples] == [0, 0, 1, 1, 1]
    known = Explanations(1)
    for _ in range(100):
        known.add(Explanation(key="k", outcome="scored"))
    assert len(known.of("k")) < 20


def test_every_reason_has_advice() -> None:
    """Each cause and each reason of the books says what it means and what to do."""
    statuses = [status.value for status in Status if status is not Status.OK]
    causes = [c.value for c in Cause if c is not Cause.DROPPED]
    reasons = ["rate_limit", "budget", "spooled", "taken_over", "gave_up", "unreadable"]
    assert all(advice_for(name) for name in (*statuses, *causes, *reasons))
    assert {"queue_full", "shutdown", "no_thread", "redaction_failed"} <= set(ADVICE)
    assert issubclass(JudgeError, RagEvalError)
