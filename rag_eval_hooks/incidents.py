"""Counter of exceptions caught at an edge; logs each kind once, never any content."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Mapping

__all__ = ["Incidents"]

_logger = logging.getLogger("rag_eval_hooks")


class Incidents:
    """Counter of failures by origin and kind. Thread-safe."""

    def __init__(self) -> None:
        self.forked()

    def forked(self) -> None:
        """Count from zero in a forked child, which may have inherited a lock that is held."""
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def report(self, origin: str, error: BaseException) -> None:
        """Count an exception; the first of its kind is logged with its type, not its message.

        A message can hold the content of a request; types and origins cannot.

        Args:
            origin: Part that raised it, such as `sink MyStore`.
            error: The exception.
        """
        kind = f"{origin}: {type(error).__name__}"
        self._enter(kind, f"{kind} raised")

    def count(self, kind: str) -> None:
        """Count a failure that is no exception of this process; the first is logged.

        Args:
            kind: Origin and failure in words; holds no content.
        """
        self._enter(kind, kind)

    def _enter(self, kind: str, message: str) -> None:
        with self._lock:
            self._counts[kind] += 1
            first = self._counts[kind] == 1
        if first:
            _logger.warning("%s; counted in stats(), further ones are not logged", message)

    def counts(self) -> Mapping[str, int]:
        """Return the occurrences so far, by kind."""
        with self._lock:
            return dict(self._counts)
