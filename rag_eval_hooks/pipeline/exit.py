"""What happens to waiting samples when the process ends."""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
import weakref
from typing import Protocol

__all__ = ["ExitHook"]


class _Pipeline(Protocol):
    def flush(self, timeout: float | None) -> bool: ...

    def shutdown(self, timeout: float) -> bool: ...


class ExitHook:
    """Finishes waiting samples at exit, within a time limit.

    There are two moments. When the main thread ends, waiting samples are finished: judges can
    still resolve names and start threads then, which they cannot later. Samples are still taken,
    because other threads of the application may go on serving. At the very end, all is shut down.

    Args:
        pipeline: What is flushed and shut down; not kept alive, as one of the two hooks cannot
            be taken back.
        timeout: Seconds that both may take together.
    """

    def __init__(self, pipeline: _Pipeline, timeout: float) -> None:
        self._pipeline = weakref.ref(pipeline)
        self._left = timeout
        self._armed = False

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

    def disarm(self) -> None:
        """Makes the hooks do nothing."""
        self._armed = False
        atexit.unregister(self._at_exit)

    def _at_main_end(self) -> None:
        pipeline = self._pipeline()
        if self._armed and pipeline is not None:
            began = time.monotonic()
            pipeline.flush(self._left)
            self._left = max(0.0, self._left - (time.monotonic() - began))

    def _at_exit(self) -> None:
        pipeline = self._pipeline()
        if self._armed and pipeline is not None:
            pipeline.shutdown(self._left)
