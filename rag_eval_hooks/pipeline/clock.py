"""Keeps time limits, whatever the evaluator is busy with."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Clock"]

_TICK = 0.25


class Clock:
    """Calls a function a few times a second, in a daemon thread of its own.

    Args:
        tick: Called; handles its own exceptions.
    """

    def __init__(self, tick: Callable[[], None]) -> None:
        self._tick = tick
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the thread, once.

        Raises:
            RuntimeError: The system gives no thread.
        """
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None and not self._stopped.is_set():
                thread = threading.Thread(
                    target=self._run, name="rag-eval-hooks-clock", daemon=True
                )
                thread.start()
                self._thread = thread

    @property
    def ticks(self) -> bool:
        """Whether the thread was started and not stopped."""
        return self._thread is not None and not self._stopped.is_set()

    def stop(self) -> None:
        """Ends the thread at its next tick."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(_TICK):
            self._tick()
