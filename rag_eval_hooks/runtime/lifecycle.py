"""Timer thread, exit hooks, flush and shutdown of a pipeline."""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.threads import CLOCK_NAME, Wakeup

if TYPE_CHECKING:
    from rag_eval_hooks.runtime.pipeline import Pipeline

__all__ = ["Clock", "ExitHook", "close_abandoned", "flush", "shutdown"]

_TICK_S: Final = 0.25
_STOP_TIMEOUT: Final = 2.0
"""Maximum number of seconds to wait for cancelled work, and to close sinks and judges."""


class Clock:
    """Calls a function four times a second, on a daemon thread."""

    def __init__(self, tick: Callable[[], None], incidents: Incidents) -> None:
        self._tick = tick
        self._incidents = incidents
        self._wakeup = Wakeup()
        self._is_stopped = False
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def start(self) -> bool:
        """Start the thread once. Return False if the clock is stopped or no thread can start."""
        if self._is_stopped or self._thread is not None:
            return not self._is_stopped
        try:
            threading.Thread(target=self._run, name=CLOCK_NAME, daemon=True).start()
        except RuntimeError as error:
            self._incidents.report("clock", error)
            return False
        return True

    @property
    def is_awaited(self) -> bool:
        return not self._ticks or bool(self._wakeup.asking)

    @property
    def _ticks(self) -> bool:
        return self._thread is not None and not self._is_stopped

    def call(self, timeout: float | None) -> bool:
        """Wait for a call that starts after this moment. Return whether the call ended.

        If the clock has no thread, the calling thread makes the call.
        """
        if self._ticks and threading.current_thread() is not self._thread:
            return self._wakeup.ask(timeout)
        self._call()
        return True

    def stop(self) -> None:
        self._is_stopped = True
        self._wakeup.set()

    def _run(self) -> None:
        with self._lock:
            if self._thread is not None:
                # Two requests started the thread at once.
                return
            self._thread = threading.current_thread()
        while not self._is_stopped:
            self._wakeup.wait(_TICK_S)
            asking = self._wakeup.asking
            self._call()
            self._wakeup.answer(asking)
        self._wakeup.end()

    def _call(self) -> None:
        try:
            self._tick()
        except Exception as error:  # noqa: BLE001 - the host's edge: no caller would see it
            self._incidents.report("clock", error)


class ExitHook:
    """Finishes waiting samples at exit, within a time limit.

    The first hook runs when the main thread ends. At that time judges can still resolve names and
    start threads. New samples are still accepted, because other threads may keep serving. The
    second hook shuts the pipeline down at interpreter exit. Children of `multiprocessing` exit
    through `os._exit`, which runs no exit hooks, so they get a third hook.
    """

    def __init__(self, pipeline: Pipeline, timeout: float) -> None:
        # The hook at the end of the main thread cannot be unregistered.
        self._pipeline = weakref.ref(pipeline)
        self._left = timeout
        self._is_armed = False
        self._finalizers: list[Any] = []

    def arm(self) -> None:
        """Register the hooks at the first sample.

        Exit hooks run in reverse order. Our hooks must run before the tracer provider's hook, which
        the application registers earlier.
        """
        if self._is_armed:
            return
        self._is_armed = True
        # During interpreter exit no hook can be registered.
        with contextlib.suppress(RuntimeError):
            atexit.register(self._at_exit)
            # Private but stable since Python 3.9; concurrent.futures uses it before its threads
            # end. Without it, the atexit hook does everything.
            register = getattr(threading, "_register_atexit", None)
            if register is not None:
                register(self._at_main_end)
        # Loaded only in children of multiprocessing.
        util = sys.modules.get("multiprocessing.util")
        process = sys.modules.get("multiprocessing.process")
        if util is not None and process is not None and process.parent_process() is not None:
            self._finalizers.append(util.Finalize(None, self._at_child_end, exitpriority=0))

    def disarm(self) -> None:
        """Disable the hooks after `shutdown` or in a forked child. A child registers new hooks."""
        self._is_armed = False
        atexit.unregister(self._at_exit)
        for finalizer in self._finalizers:
            finalizer.cancel()

    def _at_main_end(self) -> bool:
        pipeline = self._pipeline()
        if pipeline is None or not self._is_armed:
            return True
        began = time.monotonic()
        finished = flush(pipeline, self._left)
        self._left = max(0.0, self._left - (time.monotonic() - began))
        return finished

    def _at_child_end(self) -> None:
        pipeline = self._pipeline()
        # Later samples of other threads are finished when the last thread ends.
        if not self._at_main_end() and pipeline is not None:
            shutdown(pipeline, 0.0)

    def _at_exit(self) -> None:
        pipeline = self._pipeline()
        if pipeline is not None and self._is_armed:
            shutdown(pipeline, self._left)


def flush(pipeline: Pipeline, timeout: float | None) -> bool:
    """Wait until all accepted requests have finished. Return False after `timeout` seconds."""
    pipeline.ready()
    deadline = None if timeout is None else time.monotonic() + timeout

    def left() -> float | None:
        return None if deadline is None else max(0.0, deadline - time.monotonic())

    outbox = pipeline.outbox
    written = pipeline.clock.call(left())
    pipeline.recorder.report_unmet()
    # Write to the disk first: samples on disk survive a timeout.
    outbox.drain(left())
    finished = pipeline.books.wait(left()) and outbox.drain(left())
    parts = pipeline.parts
    if parts.references is not None:
        parts.references.report_unmatched(parts.config.references, parts.incidents)
    finished = pipeline.delivery.flush(left()) and finished
    return outbox.drain(left()) and finished and written


def shutdown(pipeline: Pipeline, timeout: float) -> bool:
    """Reject new requests, finish pending requests within `timeout` seconds, and close. Idempotent.

    Unfinished requests stay in the spool, or are dropped as `shutdown`. Held spans end. Returns
    whether all pending requests finished.
    """
    pipeline.ready()
    deadline = time.monotonic() + timeout
    pipeline.recorder.suspensions.close()
    pipeline.clock.call(timeout)
    pipeline.close()
    finished = flush(pipeline, max(0.0, deadline - time.monotonic()))
    pipeline.recorder.abandon_open()
    pipeline.clock.call(_STOP_TIMEOUT)
    pipeline.recorder.report_unreached()
    pipeline.outbox.drain(_STOP_TIMEOUT)
    pipeline.worker.stop(_STOP_TIMEOUT)
    pipeline.delivery.close()
    if pipeline.remote is not None:
        pipeline.remote.close()
    pipeline.outbox.close(_STOP_TIMEOUT)
    pipeline.clock.call(_STOP_TIMEOUT)
    pipeline.clock.stop()
    pipeline.holder.close()
    return finished


def close_abandoned(pipeline: Pipeline) -> None:
    """Finish and close a pipeline to which nothing refers, on a separate thread."""

    def finish() -> None:
        while len(pipeline.recorder):
            time.sleep(_TICK_S)
        flush(pipeline, pipeline.parts.config.exit_timeout)
        shutdown(pipeline, 0.0)

    if pipeline.is_ready and not pipeline.is_closed:
        # Process exit still waits for the flush.
        with contextlib.suppress(RuntimeError):
            threading.Thread(target=finish, name="rag-eval-hooks-close", daemon=True).start()
