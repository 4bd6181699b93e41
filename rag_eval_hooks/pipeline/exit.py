"""What happens to waiting samples when the process ends."""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
from collections.abc import Callable

__all__ = ["ExitHook"]


class ExitHook:
    """Finishes waiting samples at exit, within a time limit.

    There are two moments. When the main thread ends, waiting samples are finished: judges can
    still resolve names and start threads then, which they cannot later. Samples are still taken,
    because other threads of the application may go on serving. At the very end, all is shut down.

    Args:
        flush: Waits until nothing is pending, for some seconds.
        shutdown: Ends everything, after some seconds at most.
        timeout: Seconds that both may take together.
    """

    def __init__(
        self,
        flush: Callable[[float], bool],
        shutdown: Callable[[float], bool],
        timeout: float,
    ) -> None:
        self._flush = flush
        self._shutdown = shutdown
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
        if self._armed:
            began = time.monotonic()
            self._flush(self._left)
            self._left = max(0.0, self._left - (time.monotonic() - began))

    def _at_exit(self) -> None:
        if self._armed:
            self._shutdown(self._left)
