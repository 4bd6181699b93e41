"""Exit hooks, flush and shutdown of a pipeline."""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rag_eval_hooks.runtime.pipeline import Pipeline

_POLL_S: Final = 0.25
_STOP_TIMEOUT: Final = 2.0  # seconds to wait for cancelled work, sinks and judges


class ExitHook:
    """Finishes waiting samples at exit, within a time limit.

    The first hook flushes when the main thread ends: judges can still start threads, and other
    threads may keep serving. The second hook shuts the pipeline down at interpreter exit. Children
    of `multiprocessing` exit through `os._exit`, which runs no exit hooks, so they get a third.
    """

    def __init__(self, pipeline: Pipeline, timeout: float) -> None:
        # The hook at the end of the main thread cannot be unregistered.
        self._pipeline = weakref.ref(pipeline)
        self._left = timeout
        self._is_armed, self._is_finished = False, True
        self._finalizers: list[Any] = []

    def arm(self) -> None:
        # At the first sample: exit hooks run in reverse order, and ours must run before the hook of
        # the tracer provider, which the application registers earlier.
        if self._is_armed:
            return
        self._is_armed = True
        # During interpreter exit no hook can be registered.
        with contextlib.suppress(RuntimeError):
            atexit.register(self._at_exit)
            # Private but stable since Python 3.9. Without it, the atexit hook does everything.
            getattr(threading, "_register_atexit", lambda _: None)(self._at_main_end)
        # Loaded only in children of multiprocessing.
        util: Any = sys.modules.get("multiprocessing.util")
        process: Any = sys.modules.get("multiprocessing.process")
        if util and process and process.parent_process() is not None:
            self._finalizers.append(util.Finalize(None, self._at_child_end, exitpriority=0))

    def disarm(self) -> None:
        self._is_armed = False
        atexit.unregister(self._at_exit)
        for finalizer in self._finalizers:
            finalizer.cancel()

    def _at_main_end(self) -> None:
        pipeline = self._pipeline()
        if pipeline is not None and self._is_armed:
            began = time.monotonic()
            self._is_finished = flush(pipeline, self._left)
            self._left = max(0.0, self._left - (time.monotonic() - began))

    def _at_child_end(self) -> None:
        self._at_main_end()
        # Later samples of other threads are finished when the last thread ends.
        if not self._is_finished:
            self._at_exit()

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

    outbox, parts = pipeline.outbox, pipeline.parts
    written = pipeline.tick(left())
    pipeline.recorder.report_unmet()
    # Write to the disk first: samples on disk survive a timeout.
    outbox.drain(left())
    finished = pipeline.books.wait(left()) and outbox.drain(left())
    if parts.references is not None:
        parts.references.report_unmatched(parts.config.references, parts.incidents)
    finished = pipeline.delivery.flush(left()) and finished
    return outbox.drain(left()) and finished and written


def shutdown(pipeline: Pipeline, timeout: float) -> bool:
    """Finish pending requests within `timeout` seconds, and close. Idempotent.

    Unfinished requests stay in the spool, or are dropped as `shutdown`. Returns whether all pending
    requests finished.
    """
    pipeline.ready()
    deadline = time.monotonic() + timeout
    pipeline.recorder.suspensions.close()
    pipeline.tick(timeout)
    pipeline.close()
    finished = flush(pipeline, max(0.0, deadline - time.monotonic()))
    pipeline.recorder.abandon_open()
    pipeline.tick(_STOP_TIMEOUT)
    pipeline.recorder.report_unreached()
    pipeline.outbox.drain(_STOP_TIMEOUT)
    pipeline.worker.stop(_STOP_TIMEOUT)
    pipeline.delivery.close()
    if pipeline.remote is not None:
        pipeline.remote.close()
    pipeline.outbox.close(_STOP_TIMEOUT)
    pipeline.tick(_STOP_TIMEOUT)
    pipeline.stop()
    pipeline.holder.close()
    return finished


def close_abandoned(pipeline: Pipeline) -> None:
    """Finish and close a pipeline to which nothing refers, on a separate thread."""

    def finish() -> None:
        while len(pipeline.recorder):
            time.sleep(_POLL_S)
        flush(pipeline, pipeline.parts.config.exit_timeout)
        shutdown(pipeline, 0.0)

    if pipeline.is_ready and not pipeline.is_closed:
        # Process exit still waits for the flush.
        with contextlib.suppress(RuntimeError):
            threading.Thread(target=finish, name="rag-eval-hooks-close", daemon=True).start()
