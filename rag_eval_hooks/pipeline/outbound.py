"""Sinks that send in the background: begun with the process, waited for at a flush."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sinks.base import Sink
from rag_eval_hooks.sinks.platform_sink import PlatformHost, PlatformSink
from rag_eval_hooks.workers import DaemonExecutor

__all__ = ["Outbound"]


class Outbound:
    """The platform sinks of an evaluator.

    Args:
        sinks: All sinks.
        host: What the platform sinks are given.
        flush_spans: Exports the spans that ended; a platform takes scores for known spans only.
        incidents: Where exceptions are counted.
    """

    def __init__(
        self,
        sinks: Sequence[Sink],
        host: PlatformHost,
        flush_spans: Callable[[float], object],
        incidents: Incidents,
    ) -> None:
        self._sinks = [sink for sink in sinks if isinstance(sink, PlatformSink)]
        self._host = host
        self._flush_spans = flush_spans
        self._incidents = incidents

    def open(self) -> None:
        """Begins in this process."""
        for sink in self._sinks:
            sink.open(self._host, self._incidents)

    def flush(self, timeout: float | None) -> bool:
        """Waits until all that was delivered is sent or lost.

        Args:
            timeout: Seconds, or None without limit.

        Returns:
            Whether it is.
        """
        if not self._sinks:
            return True
        deadline = None if timeout is None else time.monotonic() + timeout
        self._export(deadline)
        # Each has its turn, also after one that needed all the time.
        flushed = [sink.flush(_left(deadline)) for sink in self._sinks]
        return all(flushed)

    def _export(self, deadline: float | None) -> None:
        left = _left(deadline)
        if left == 0:
            return
        # An exporter whose receiver is gone may take longer than it was told.
        executor = DaemonExecutor("rag-eval-hooks-flush")
        try:
            done = executor.submit(self._flush_spans, 30.0 if left is None else left)
            executor.shutdown()
            done.result(left)
        except Exception as error:  # noqa: BLE001 - the host's edge: its provider and exporters
            self._incidents.report("span flush", error)


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())
