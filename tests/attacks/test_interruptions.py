"""Exceptions of the application's signal handlers leave no lock taken, and reach it."""

from __future__ import annotations

import contextlib
import contextvars
import gc
import inspect
import itertools
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from rag_eval_hooks import RagEval
from rag_eval_hooks.capture.interaction import enclosing_run
from tests.support.evaluation import faithful_judge, record_request, sample, total
from tests.waiting import PATIENCE

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "SIGUSR1") or sys.gettrace() is not None, reason="no such signal, or traced"
)


class _TimeLimitError(Exception):
    """As Celery's SoftTimeLimitExceeded."""


def _handle(_number: int, _frame: object) -> None:
    raise _TimeLimitError


def _moments(call: Callable[[], object], stop_at: int | None) -> int:
    """Call with the signal at one moment. Return the number of moments: starts and returns."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        is_generator = frame.f_code.co_flags & inspect.CO_GENERATOR
        name = frame.f_code.co_filename
        if not ("rag_eval_hooks" in name or name == threading.__file__) or is_generator:
            return None
        if event in ("call", "return"):
            count += 1
            if count == stop_at:
                signal.raise_signal(signal.SIGUSR1)
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
    return count


def _block(evals: RagEval, _: str = "") -> None:
    with evals.interaction("q") as interaction:
        interaction.contexts(["c"])
        interaction.answer("a")


NUMBERS = itertools.count()
CALLS: dict[str, Callable[[RagEval, str], object]] = {
    "offer": lambda evals, _: evals.submit(sample()),
    "feedback": lambda evals, name: evals.feedback(name, score=1),
    "stats": lambda evals, _: evals.stats(),
    "explain": lambda evals, name: evals.explain(name),
    "evaluate": lambda evals, _: evals.evaluate(sample()),
    "flush": lambda evals, _: evals.flush(PATIENCE),
    "block": _block,
    "request": lambda evals, _: record_request(evals, f"request {next(NUMBERS)}"),
}


@pytest.mark.parametrize("has_spool", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_signal_at_any_moment_is_raised_and_blocks_nothing(
    tmp_path: Path, name: str, has_spool: bool
) -> None:
    gc.collect()  # An evaluator of another test would end inside a traced call.
    before = signal.signal(signal.SIGUSR1, _handle)
    evals = RagEval(
        ["ragas.faithfulness"],
        faithful_judge(),
        tracer_provider=TracerProvider(),
        queue_size=10_000,
        spool=str(tmp_path / "spool") if has_spool else None,
    )
    known = sample()
    evals.submit(known)
    evals.flush(PATIENCE)
    # A context of its own: no code of ours runs between a block's ends and our methods.
    run = contextvars.copy_context().run
    try:
        moments = run(_moments, lambda: CALLS[name](evals, known.sample_id), None)
        raised, chosen = 0, range(1, moments + 1, max(1, moments // 150))
        for moment in chosen:
            try:
                run(_moments, lambda: CALLS[name](evals, known.sample_id), moment)
            except _TimeLimitError:
                raised += 1
        assert raised
    finally:
        signal.signal(signal.SIGUSR1, before)
    ended: list[bool] = []

    def others() -> None:
        evals.submit(sample())
        record_request(evals, "another")
        ended.append(evals.flush(PATIENCE))

    thread = threading.Thread(target=others, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert ended == [True]
    stats = evals.stats()
    assert stats.offered == total(stats) <= len(chosen) + 4
    assert stats.pending == 0
    assert evals.shutdown(PATIENCE)


def test_block_that_a_signal_interrupts_contains_no_later_request() -> None:
    before = signal.signal(signal.SIGUSR1, _handle)

    def interrupted(moment: int) -> bool:
        with contextlib.suppress(_TimeLimitError):
            _moments(lambda: _block(evals), moment)
        return enclosing_run(evals.recorder) is not None

    try:
        with RagEval(["lexical"]) as evals:
            moments = range(1, _moments(lambda: _block(evals), None) + 1)
            left = [one for one in moments if contextvars.copy_context().run(interrupted, one)]
    finally:
        signal.signal(signal.SIGUSR1, before)
    # No code of ours runs at the return of `__enter__` and at the call of `__exit__`.
    assert len(left) <= 2
