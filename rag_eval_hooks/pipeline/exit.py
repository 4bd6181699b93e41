"""What happens to waiting samples when the process ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
import weakref
from typing import Any, Protocol

__all__ = ["ExitHook"]


class _Pipeline(Protocol):
    def flush(self, timeout: float | None) -> bool: ...

    def shutdown(self, timeout: float) -> bool: ...


class ExitHook:
    """Finishes waiting samples at exit, within a time limit.

    There are two moments. When the main thread ends, waiting samples are finished: judges can
    still resolve names and start threads then, which they cannot later. Samples are still taken,
    because other threads of the application may go on serving. At the very end, all is shut down.

    The children of `multiprocessing` leave by `os._exit`, which runs neither; what they run before
    it is this module's third hook.

    Args:
        pipeline: What is flushed and shut down; not kept alive, as one of the two hooks cannot
            be taken back.
        timeout: Seconds that both may take together.
    """

    def __init__(self, pipeline: _Pipeline, timeout: float) -> None:
        self._pipeline = weakref.ref(pipeline)
        self._left = timeout
        self._process = os.getpid()
        self._armed = False
        self._finalizers: list[Any] = []

    def arm(self) -> None:
        """Registers the hooks, once.

        Called with the first sample, because exit hooks run in reverse order: ours must run
        before that of the tracer provider, which the application sets up before it serves.
        """
        if self._armed:
            return
        self._armed = True
        # Too late to register anything while the interpreter ends: then nothing is finished.
        with contextlib.suppress(RuntimeError):
            atexit.register(self._at_exit)
            # Private but stable since Python 3.9, and what concurrent.futures itself uses to
            # act before its worker threads are gone; where it is missing, atexit does it all.
            register = getattr(threading, "_register_atexit", None)
            if register is not None:
                register(self._at_main_end)
        self._arm_child()

    def _arm_child(self) -> None:
        # Only where it is loaded: a process that does not use it is no child of it.
        util = sys.modules.get("multiprocessing.util")
        process = sys.modules.get("multiprocessing.process")
        if util is not None and process is not None and process.parent_process() is not None:
            self._finalizers.append(util.Finalize(None, self._at_child_end, exitpriority=0))

    def disarm(self) -> None:
        """Makes the hooks do nothing."""
        self._armed = False
        atexit.unregister(self._at_exit)
        for finalizer in self._finalizers:
            finalizer.cancel()

    def _ours(self) -> _Pipeline | None:
        """The pipeline, if there is something to end; a forked child has a hook of its own."""
        return self._pipeline() if self._armed and self._process == os.getpid() else None

    def _at_main_end(self) -> None:
        if (pipeline := self._ours()) is not None:
            self._flush(pipeline)

    def _flush(self, pipeline: _Pipeline) -> bool:
        began = time.monotonic()
        finished = pipeline.flush(self._left)
        self._left = max(0.0, self._left - (time.monotonic() - began))
        return finished

    def _at_child_end(self) -> None:
        pipeline = self._ours()
        # What other threads of the child still offer is finished when the last of them ends.
        if pipeline is not None and not self._flush(pipeline):
            pipeline.shutdown(0.0)

    def _at_exit(self) -> None:
        if (pipeline := self._ours()) is not None:
            pipeline.shutdown(self._left)
