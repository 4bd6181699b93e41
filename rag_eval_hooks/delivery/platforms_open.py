"""Sinks that send in the background: begun with the process, waited for at a flush."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from rag_eval_hooks.daemon_executor import DaemonExecutor
from rag_eval_hooks.delivery.platforms.platform import Kept, Store
from rag_eval_hooks.delivery.platforms.platform_sink import PlatformHost, PlatformSink
from rag_eval_hooks.delivery.sink import Sink
from rag_eval_hooks.incidents import Incidents

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

    def open(self, store: Store | None) -> None:
        """Begins in this process.

        Args:
            store: Where scores are kept until platforms have taken them, or None.
        """
        for sink in self._sinks:
            sink.open(self._host, self._incidents, store)

    def room(self) -> Mapping[str, int]:
        """How many more reports of the store each platform can take over, by place."""
        return {sink.place: sink.room() for sink in self._sinks}

    def take(self, kept: Kept) -> None:
        """Hands a report of the store to its platform."""
        for sink in self._sinks:
            if sink.place == kept.place:
                sink.take(kept)
                return

    def lost(self, place: str, count: int) -> None:
        """Counts reports that were kept too long."""
        for _ in range(count):
            self._incidents.count(f"sink {place}, kept too long: Lost")

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
