"""Daemon executors end clearly, and exceptions of signal handlers reach the application."""

from __future__ import annotations

import functools
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.threads import DaemonExecutor


@given(before=st.integers(0, 3), busy=st.booleans())
def test_submit_after_shutdown_raises_and_earlier_calls_end(before: int, busy: bool) -> None:
    executor = DaemonExecutor("worker")
    go = threading.Event()
    futures = [executor.submit(go.wait if busy else time.time) for _ in range(before)]
    executor.shutdown()
    with pytest.raises(RuntimeError, match="shut down"):
        executor.submit(time.time)
    go.set()
    for future in futures:
        future.result(60)


class _TimeLimitError(Exception):
    pass


def _handle(_number: int, _frame: object) -> None:
    raise _TimeLimitError


class _Handler:
    def handle(self, number: int, frame: object) -> None:
        _handle(number, frame)

    def __call__(self, number: int, frame: object) -> None:
        _handle(number, frame)


HANDLERS: dict[str, Callable[[int, Any], None]] = {
    "function": _handle,
    "method": _Handler().handle,
    "object": _Handler(),
    "partial": functools.partial(lambda _extra, number, frame: _handle(number, frame), "x"),
}


def _at_the_edge(incidents: Incidents) -> None:
    try:
        signal.raise_signal(signal.SIGALRM)
    except Exception as error:  # noqa: BLE001 - as at the host's edge
        incidents.report("offer", error)


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no such signal on this platform")
@pytest.mark.parametrize("kind", HANDLERS)
def test_exception_of_a_signal_handler_is_raised_again(kind: str) -> None:
    incidents = Incidents()
    before = signal.signal(signal.SIGALRM, HANDLERS[kind])
    try:
        with pytest.raises(_TimeLimitError):
            _at_the_edge(incidents)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert incidents.counts() == {}
