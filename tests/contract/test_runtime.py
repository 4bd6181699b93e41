"""Runtime under trouble: no descriptors, no threads, collection, first use."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks import RagEval, RagEvalConfig
from rag_eval_hooks.testing import MemorySink, ScriptedJudge
from tests.support.evaluation import FAITHFUL, faithful_judge, record_request, sample, total
from tests.support.scripts import environment, run_script
from tests.waiting import PATIENCE, until

Shut = Callable[[RagEval], RagEval]


def test_exception_in_an_asked_evaluation_is_a_failure_not_a_shutdown(
    shut_down_after: Shut, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = RagEvalConfig(sample_rate=0.0, tail=[{"thumbs_down": True, "then": "all"}])
    memory = MemorySink()
    evals = shut_down_after(
        RagEval("ragas.faithfulness", faithful_judge(), sinks=[memory], config=config)
    )

    async def broken(*_: Any, **__: Any) -> Any:
        raise KeyError

    monkeypatch.setattr(evals._parts.scorer, "score", broken)
    evals.submit(one := sample())
    assert evals.feedback(one.sample_id, score=0)
    assert evals.flush(PATIENCE)
    stats = evals.stats()
    assert (stats.failed, stats.dropped) == ({"metric_failed": 1}, {})
    assert stats.incidents == {"evaluation: KeyError": 1}
    assert len(memory.feedbacks) == 1


def _ours() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name.startswith("rag-eval-hooks")}


def test_nothing_starts_before_the_first_use() -> None:
    before = _ours()
    evals = RagEval("ragas.faithfulness", faithful_judge(), sinks=[MemorySink()])
    assert _ours() <= before
    evals.submit(sample())
    assert _ours() - before
    evals.shutdown()


@pytest.mark.parametrize("pending", [0, 3])
def test_abandoned_object_finishes_and_frees_its_threads(pending: int) -> None:
    before, memory = _ours(), MemorySink()
    evals = RagEval("ragas.faithfulness", ScriptedJudge(FAITHFUL, latency=0.1), sinks=[memory])
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


def test_handler_keeps_its_evaluator(shut_down_after: Shut) -> None:
    from rag_eval_hooks_langchain import RagEvalCallbackHandler

    handler = RagEvalCallbackHandler(RagEval("ragas.faithfulness", faithful_judge()))
    gc.collect()
    evals = shut_down_after(handler.evals)
    assert evals.submit(sample())


def test_intake_that_two_threads_empty_at_once_loses_and_raises_nothing(
    shut_down_after: Shut, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rag_eval_hooks.runtime import intake

    monkeypatch.setattr(intake, "_MOST_WAITING", 0)
    evals = shut_down_after(RagEval("ragas.faithfulness", faithful_judge()))

    def serve(name: str) -> None:
        for number in range(100):
            record_request(evals, f"{name} {number}")

    threads = [threading.Thread(target=serve, args=(name,)) for name in "abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert evals.flush(PATIENCE)
    stats = evals.stats()
    assert stats.offered == total(stats) == 600
    assert stats.incidents == {}


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
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
        cwd=tmp_path,
        env=environment(),
    )
    assert done.stdout == "50\n"
    assert len(done.stderr.splitlines()) <= 3, done.stderr


def test_import_loads_at_most_ninety_modules(tmp_path: Path) -> None:
    script = """
        import sys, rag_eval_hooks
        ours = [name for name in sys.modules if name.partition(".")[0] == "rag_eval_hooks"]
        rooms = {name.split(".")[1] for name in ours if "." in name}
        print(len(ours) <= 90, rooms & {"fleet", "distributed", "runtime", "capture"})
    """
    assert run_script(tmp_path, script) == "True set()\n"
