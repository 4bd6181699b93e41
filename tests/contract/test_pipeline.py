"""The laws of the background evaluator, with a real thread and a scripted judge."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from rag_eval_hooks import (
    AskedMetric,
    CallableJudge,
    ConfigError,
    Metric,
    NotScored,
    RagEval,
    RagEvalConfig,
    Sample,
    Stats,
)
from rag_eval_hooks.config import limits
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.testing import MemorySink, ScriptedJudge
from tests.support.evaluation import StuckJudge, faithful_judge, sample, total
from tests.waiting import PATIENCE, until

Make = Callable[..., RagEval]


@pytest.fixture
def make(shut_down_after: Callable[[RagEval], RagEval]) -> Make:
    def build(judge: Any = None, **arguments: Any) -> RagEval:
        arguments.setdefault("metrics", ["ragas.faithfulness"])
        return shut_down_after(RagEval(judge=judge or faithful_judge(), **arguments))

    return build


def test_background_and_inline_scores_are_the_same(make: Make) -> None:
    memory = MemorySink()
    evals = make("heuristic", metrics=["ragas", "lexical"], sinks=[memory])
    subject = sample(
        contexts=("The quay opened in 1931. It has two berths.",),
        answer="The quay opened in 1931. It has nine berths.",
        reference="It opened in 1931.",
    )
    evals.submit(subject)
    evals.flush(300)
    inline = evals.evaluate(subject)
    assert inline == memory.results[0].outcomes
    assert asyncio.run(evals.aevaluate(subject)) == inline


def test_a_stuck_judge_never_blocks_an_offer_and_memory_is_bounded(make: Make) -> None:
    config = RagEvalConfig(queue_size=10, judge_concurrency=2)
    judge = StuckJudge()
    evals = make(judge, config=config)
    accepted = int(evals.submit(sample()))
    until(lambda: judge.calls)
    accepted += sum(evals.submit(sample()) for _ in range(999))
    stats = evals.stats()
    assert judge.replies == 0
    assert accepted <= 12
    assert stats.pending == accepted
    assert stats.dropped == {"queue_full": 1000 - accepted}
    assert stats.offered == total(stats) == 1000


def test_a_crashing_sink_harms_nothing_else(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(MemorySink):
        def deliver(self, evaluation: Evaluation) -> None:
            raise OSError("secret content")

    memory = MemorySink()
    evals = make(sinks=[Broken(), memory])
    with caplog.at_level(logging.WARNING, "rag_eval_hooks"):
        for _ in range(3):
            evals.submit(sample())
        evals.flush(300)
    assert evals.stats().incidents == {"sink Broken: OSError": 3}
    assert evals.stats().scored == len(memory.results) == 3
    assert len(caplog.records) == 1
    assert "secret" not in caplog.text


def test_a_thread_that_cannot_start_loses_nothing_uncounted(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    evals = make()

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for _ in range(3):
            assert not evals.submit(sample())
    incidents = {"clock: RuntimeError": 3}
    assert evals.stats() == Stats(offered=3, dropped={"no_thread": 3}, incidents=incidents)
    assert len(caplog.records) == 1
    assert evals.submit(sample())


def _exiting(part: str, error: type[BaseException]) -> dict[str, Any]:
    """Return arguments of an evaluator of which one part tries to end the process."""

    def leave(*_: object) -> Any:
        raise error

    async def leave_later(*_: object) -> Any:
        await asyncio.sleep(0)
        raise error

    asked = AskedMetric(id="my.asked", ask=leave_later, needs=frozenset())
    parts: dict[str, dict[str, Any]] = {
        "judge": {"judge": ScriptedJudge(error=error())},
        "function": {"judge": CallableJudge(leave)},
        "async function": {"judge": CallableJudge(leave_later)},
        "metric": {"metrics": [Metric(id="my.exit", score=leave, needs=frozenset())]},
        "asked metric": {"metrics": [asked]},
    }
    return parts[part]


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("part", ["judge", "function", "async function", "metric", "asked metric"])
def test_code_that_exits_ends_no_other_evaluation(
    make: Make, part: str, error: type[BaseException]
) -> None:
    evals = make(**_exiting(part, error))
    for _ in range(2):
        (outcome,) = evals.evaluate(sample()).values()
        assert isinstance(outcome, NotScored)
        assert outcome.cause in ("judge_failed", "metric_failed")
        assert evals.submit(sample())
    assert evals.flush(300)
    assert sum(evals.stats().failed.values()) == 2


def test_an_inline_call_during_shutdown_ends(make: Make) -> None:
    for _ in range(40):
        evals = make(faithful_judge(latency=0.005))
        ended: list[object] = []

        def call(evals: RagEval = evals, ended: list[object] = ended) -> None:
            try:
                ended.append(evals.evaluate(sample()))
            except RuntimeError as error:
                ended.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        evals.shutdown(0)
        thread.join(PATIENCE)
        assert len(ended) == 1


def test_late_sink_exception_is_not_logged(
    make: Make, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()

    def late(_sample: Sample, _outcomes: Outcomes) -> None:
        release.wait(PATIENCE)
        raise ValueError("the secret answer")

    monkeypatch.setattr(limits, "SINK_SECONDS", 0.1)
    evals = make(sinks=[late])
    evals.submit(sample())
    assert evals.flush(300)
    release.set()
    # Its turn comes after the exception.
    assert evals.flush(300)
    evals.submit(sample())
    evals.shutdown()
    gc.collect()
    assert "secret" not in caplog.text


def test_waiting_samples_are_bounded_by_size_too(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "QUEUE_CHARS", 100_000)
    config = RagEvalConfig(judge_concurrency=1)
    evals = make(StuckJudge(), config=config)
    for _ in range(50):
        evals.submit(sample(contexts=("x" * 30_000,)))
    stats = evals.stats()
    assert stats.pending <= 5
    assert stats.dropped == {"queue_full": 50 - stats.pending}


@pytest.mark.parametrize("metrics", ["ragas.faithfulness", ["ragas.faithfulness"]])
def test_evaluate_takes_one_metric_or_several(metrics: Any, make: Make) -> None:
    evals = make(metrics=["ragas.faithfulness", "lexical.source_citation"])
    assert set(evals.evaluate(sample(), metrics=metrics)) == {"ragas.faithfulness"}
    with pytest.raises(ConfigError, match=r"ragas\.faithfulnes'"):
        evals.evaluate(sample(), metrics="ragas.faithfulnes")
