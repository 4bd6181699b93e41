"""The background evaluator, with a real thread and a scripted judge, in trouble, too."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks import (
    AskedMetric,
    CallableJudge,
    Metric,
    NotScored,
    RagEval,
    RagEvalConfig,
    Stats,
)
from rag_eval_hooks.config import limits
from rag_eval_hooks.testing import MemorySink, ScriptedJudge
from rag_eval_hooks.threads import DaemonExecutor
from tests.support.evaluation import (
    FAITHFUL,
    StuckJudge,
    faithful_judge,
    record_request,
    sample,
    total,
)
from tests.support.scripts import run_script
from tests.waiting import PATIENCE, until

Make = Callable[..., RagEval]


@pytest.fixture
def make(shut_down_after: Callable[[RagEval], RagEval]) -> Make:
    def build(judge: Any = None, **arguments: Any) -> RagEval:
        arguments.setdefault("metrics", ["ragas.faithfulness"])
        return shut_down_after(RagEval(judge=judge or faithful_judge(), **arguments))

    return build


def test_background_and_inline_scores_are_the_same(make: Make) -> None:
    memory, host = MemorySink(), ContextVar("host", default=1.0)
    host.set(0.0)  # No job runs in the context of a host's request.
    evals = make("heuristic", metrics=["ragas", "lexical", lambda _: host.get()], sinks=[memory])
    subject = sample(
        contexts=("The quay opened in 1931. It has two berths.",),
        answer="The quay opened in 1931. It has nine berths.",
        reference="It opened in 1931.",
    )
    evals.submit(subject)
    evals.flush(300)
    inline = evals.evaluate(subject)
    assert inline == memory.results[0].outcomes
    assert 0 < memory.results[0].start <= (memory.results[0].end or 0) <= time.time_ns()
    assert asyncio.run(evals.aevaluate(subject)) == inline


@pytest.mark.parametrize(("chars", "queued"), [(1, 10), (30_000, 3)])
def test_a_stuck_judge_never_blocks_an_offer_and_memory_is_bounded(
    make: Make, monkeypatch: pytest.MonkeyPatch, chars: int, queued: int
) -> None:
    offered, judge = sample(contexts=("x" * chars,)), StuckJudge()
    monkeypatch.setattr(limits, "QUEUE_CHARS", 3 * (30_000 + len("qa")))
    evals = make(judge, config=RagEvalConfig(queue_size=10, judge_concurrency=1))
    accepted = int(evals.submit(offered))
    until(lambda: judge.calls)
    accepted += sum(evals.submit(offered) for _ in range(999))
    stats = evals.stats()
    assert judge.replies == 0
    assert stats.pending == accepted == 1 + queued
    assert stats.dropped == {"queue_full": 1000 - accepted}
    assert stats.offered == total(stats) == 1000


@pytest.mark.parametrize(("name", "origin"), [("clock", "clock"), ("outbox", "spool")])
def test_a_thread_that_cannot_start_loses_nothing_uncounted(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, origin: str
) -> None:
    evals, start = make(spool=str(tmp_path / "spool")), threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == f"rag-eval-hooks-{name}":
            raise RuntimeError("can't start new thread")
        start(thread)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for _ in range(3):
            assert not evals.submit(sample())
    incidents = {f"{origin}: RuntimeError": 3}
    assert evals.stats() == Stats(offered=3, dropped={"no_thread": 3}, incidents=incidents)
    assert len(caplog.records) == 1
    assert evals.submit(sample())


def test_calls_behind_hanging_calls_wait_outside_the_queue() -> None:
    executor = DaemonExecutor("x")
    assert not any(executor.submit(threading.Event().wait).done() for _ in range(2))
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(executor.run(list), 0.2))


async def _leave_later(*_: object) -> Any:
    await asyncio.sleep(0)
    raise KeyboardInterrupt


def _leave(*_: object) -> Any:
    raise SystemExit


EXITING: list[dict[str, Any]] = [
    {"judge": ScriptedJudge(error=SystemExit())},
    {"judge": CallableJudge(_leave_later)},
    {"metrics": [Metric(id="my.exit", score=_leave, needs=frozenset())]},
    {"metrics": [AskedMetric(id="my.asked", ask=_leave_later, needs=frozenset())]},
]


@pytest.mark.parametrize("arguments", EXITING)
def test_code_that_exits_ends_no_other_evaluation(make: Make, arguments: dict[str, Any]) -> None:
    evals = make(**arguments)
    for _ in range(2):
        (outcome,) = evals.evaluate(sample()).values()
        assert isinstance(outcome, NotScored)
        assert outcome.cause in ("judge_failed", "metric_failed")
        assert evals.submit(sample())
    assert evals.flush(300)
    assert sum(evals.stats().failed.values()) == 2


def test_an_inline_call_during_shutdown_ends(make: Make) -> None:
    with ThreadPoolExecutor(1) as pool:
        for _ in range(40):
            evals = make(faithful_judge(latency=0.005))
            call = pool.submit(evals.evaluate, sample())
            evals.shutdown(0)
            assert call.exception(PATIENCE) is None or isinstance(call.exception(), RuntimeError)


def _ours() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name.startswith("rag-eval-hooks")}


@pytest.mark.parametrize("pending", [0, 3])
def test_abandoned_object_finishes_and_frees_its_threads(pending: int) -> None:
    before, memory = _ours(), MemorySink()
    judge = ScriptedJudge(FAITHFUL, latency=0.1)
    evals = RagEval("ragas.faithfulness", judge, sinks=[memory], exit_timeout=PATIENCE)
    record_request(evals)
    evals.flush(PATIENCE)
    for _ in range(pending):
        evals.submit(sample())
    del evals

    def is_free() -> bool:
        gc.collect()
        return _ours() <= before

    until(is_free)
    assert len(memory.results) == 1 + pending
    assert 0 < (memory.results[0].sample.latency or 9) < PATIENCE


def test_samples_wait_for_descriptors_and_need_no_further_sample(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    script = """
        import os, resource, time
        from rag_eval_hooks import RagEval, Sample

        evals = RagEval(metrics=[lambda sample: 1.0])
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        taken = []
        try:
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass
        for number in range(50):
            evals.submit(Sample(question="q", contexts=("c",), answer=str(number)))
        time.sleep(1.5)
        stats = evals.stats()
        assert (stats.pending, stats.scored) == (50, 0), stats
        assert stats.incidents["worker: OSError"] >= 2, stats
        for one in taken:
            os.close(one)
        assert evals.flush(60)
        print(evals.stats().scored)
        """
    assert run_script(tmp_path, script) == "50\n"
