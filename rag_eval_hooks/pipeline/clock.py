"""Timer thread that enforces time limits while the evaluator is busy."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Clock"]

_TICK = 0.25


class Clock:
    """Calls a function four times a second, in a daemon thread.

    Args:
        tick: Function to call; handles its own exceptions.
    """

    def __init__(self, tick: Callable[[], None]) -> None:
        self._tick = tick
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, once.

        Raises:
            RuntimeError: The system has no thread left.
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
        """End the thread at its next tick."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(_TICK):
            self._tick()
