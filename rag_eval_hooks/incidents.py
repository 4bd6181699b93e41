"""Counter of exceptions caught at an edge; logs each kind once, never any content."""

from __future__ import annotations

import functools
import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

__all__ = ["Incidents", "host_edge"]

F = TypeVar("F", bound=Callable[..., None])

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


def host_edge(method: F) -> F:
    """Wrap a callback of a framework; what it raises is counted and goes no further.

    Args:
        method: A method of an object that has its `Incidents` in `_incidents`.
    """

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the host's edge
            self._incidents.report(f"capture {method.__name__}", error)

    return cast("F", guarded)
