"""Exceptions of the application's signal handlers leave no lock taken, and reach it."""

from __future__ import annotations

import itertools
import linecache
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from rag_eval_hooks import RagEval
from tests.support.evaluation import faithful_judge, record_request, sample, total
from tests.waiting import PATIENCE

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "SIGUSR1") or sys.gettrace() is not None, reason="no such signal, or traced"
)


class _TimeLimitError(Exception):
    """As Celery's SoftTimeLimitExceeded."""


def _handle(_number: int, _frame: object) -> None:
    raise _TimeLimitError


def _lines(call: Callable[[], object], stop_at: int | None) -> int:
    """Call, with the signal at one line of ours; return the number of lines."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        if "rag_eval_hooks" not in frame.f_code.co_filename:
            return None
        # The end of a `with` block is a line event, but no moment at which signals are handled.
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        if event == "line" and not line.startswith("with "):
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


NUMBERS = itertools.count()
CALLS: dict[str, Callable[[RagEval, str], object]] = {
    "offer": lambda evals, _: evals.offer(sample()),
    "feedback": lambda evals, name: evals.feedback(name, score=1),
    "stats": lambda evals, _: evals.stats(),
    "explain": lambda evals, name: evals.explain(name),
    "request": lambda evals, _: record_request(evals, f"request {next(NUMBERS)}"),
}


@pytest.mark.parametrize("name", CALLS)
def test_signal_at_any_line_is_raised_and_blocks_nothing(name: str) -> None:
    before = signal.signal(signal.SIGUSR1, _handle)
    evals = RagEval(
        ["ragas.faithfulness"],
        faithful_judge(),
        tracer_provider=TracerProvider(),
        queue_size=10_000,
    )
    known = sample()
    evals.offer(known)
    evals.flush(PATIENCE)
    try:
        lines = _lines(lambda: CALLS[name](evals, known.sample_id), None)
        raised = 0
        for line in range(1, lines + 1, max(1, lines // 150)):
            try:
                _lines(lambda: CALLS[name](evals, known.sample_id), line)
            except _TimeLimitError:
                raised += 1
        assert raised
    finally:
        signal.signal(signal.SIGUSR1, before)
    ended: list[bool] = []

    def others() -> None:
        evals.offer(sample())
        record_request(evals, "another")
        ended.append(evals.flush(PATIENCE))

    thread = threading.Thread(target=others, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert ended == [True]
    stats = evals.stats()
    assert stats.offered == total(stats)
    assert stats.pending == 0
    assert evals.shutdown(PATIENCE)
