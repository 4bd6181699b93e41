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
_STOP_TIMEOUT: Final = 2.0  # seconds for each component


class ExitHook:
    def __init__(self, pipeline: Pipeline, timeout: float) -> None:
        # A weak reference, because Python cannot unregister the first hook.
        self._pipeline = weakref.ref(pipeline)
        self._left = timeout
        self._is_armed = False
        self._finalizers: list[Any] = []

    def arm(self) -> None:
        # Register late, at the first sample, to run before the tracer provider's hook.
        if self._is_armed:
            return
        self._is_armed = True
        # Python rejects new hooks while the interpreter exits.
        with contextlib.suppress(RuntimeError):
            atexit.register(self._at_exit)
            # Flush while judges can start threads. Without this private API, `_at_exit` flushes.
            getattr(threading, "_register_atexit", lambda _: None)(self._at_main_end)
        util: Any = sys.modules.get("multiprocessing.util")
        process: Any = sys.modules.get("multiprocessing.process")
        # Child processes of `multiprocessing` may exit without the hooks above.
        if util and process and process.parent_process() is not None:
            self._finalizers.append(util.Finalize(None, self._at_child_end, exitpriority=0))

    def disarm(self) -> None:
        self._is_armed = False
        atexit.unregister(self._at_exit)
        for finalizer in self._finalizers:
            finalizer.cancel()

    def _at_main_end(self) -> bool:
        pipeline = self._pipeline()
        if pipeline is None or not self._is_armed:
            return True
        began = time.monotonic()
        is_finished = flush(pipeline, self._left)
        self._left = max(0.0, self._left - (time.monotonic() - began))
        return is_finished

    def _at_child_end(self) -> None:
        if not self._at_main_end():
            self._at_exit()

    def _at_exit(self) -> None:
        pipeline = self._pipeline()
        if pipeline is not None and self._is_armed:
            shutdown(pipeline, self._left)


def flush(pipeline: Pipeline, timeout: float) -> bool:
    pipeline.ready()
    deadline = time.monotonic() + timeout

    def left() -> float:
        return max(0.0, deadline - time.monotonic())

    outbox, parts = pipeline.outbox, pipeline.parts
    written = pipeline.tick(left())
    pipeline.recorder.report_unmet()
    # Write to disk first, because samples on disk survive a timeout.
    outbox.drain(left())
    finished = pipeline.books.wait(left()) and outbox.drain(left())
    if parts.references is not None:
        parts.references.report_unmatched(parts.config.references, parts.incidents)
    finished = pipeline.delivery.flush(left()) and finished
    return outbox.drain(left()) and finished and written


def shutdown(pipeline: Pipeline, timeout: float) -> bool:
    pipeline.ready()
    deadline = time.monotonic() + timeout
    pipeline.recorder.suspensions.close()
    pipeline.tick(timeout)
    pipeline.close()
    finished = flush(pipeline, max(0.0, deadline - time.monotonic()))
    pipeline.recorder.abandon_open()
    pipeline.tick(_STOP_TIMEOUT)
    pipeline.recorder.unmatched.report_unreached()
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

    def finish() -> None:
        while len(pipeline.recorder):
            time.sleep(_POLL_S)
        flush(pipeline, pipeline.parts.config.exit_timeout)
        shutdown(pipeline, 0.0)

    if pipeline.is_ready and not pipeline.is_closed:
        # If no thread can start, the exit hook flushes the pipeline.
        with contextlib.suppress(RuntimeError):
            threading.Thread(target=finish, name="rag-eval-hooks-close", daemon=True).start()
