"""Counts what went wrong at an edge and logs each kind once, never any content."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Mapping

__all__ = ["Incidents"]

_logger = logging.getLogger("rag_eval_hooks")


class Incidents:
    """Counter of failures by place and kind. Thread-safe."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets all, with a fresh lock: a forked child may have inherited a taken one."""
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def report(self, place: str, error: BaseException) -> None:
        """Counts a failure; its first occurrence is logged with its type, not its message.

        A message can hold the content of a request; types and places cannot.

        Args:
            place: Where it happened, such as `sink MyStore`.
            error: What was raised.
        """
        kind = f"{place}: {type(error).__name__}"
        self._enter(kind, f"{kind} raised")

    def count(self, kind: str) -> None:
        """Counts a failure that is no exception of this process; the first is logged.

        Args:
            kind: Place and what happened there; holds no content.
        """
        self._enter(kind, kind)

    def _enter(self, kind: str, words: str) -> None:
        with self._lock:
            self._counts[kind] += 1
            first = self._counts[kind] == 1
        if first:
            _logger.warning("%s; counted in stats(), further ones are not logged", words)

    def counts(self) -> Mapping[str, int]:
        """Occurrences by kind so far."""
        with self._lock:
            return dict(self._counts)
