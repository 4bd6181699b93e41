"""Hands outcomes to the user's sinks; a sink that fails harms nothing but itself."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence

from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.sinks.base import Sink
from rag_eval_hooks.workers import DaemonExecutor

__all__ = ["Delivery"]


class Delivery:
    """Calls every sink for every sample, in one thread, so that no sink needs a lock.

    Args:
        sinks: Where outcomes go.
        incidents: Where exceptions of sinks are counted.
    """

    def __init__(self, sinks: Sequence[Sink], incidents: Incidents) -> None:
        self._sinks = sinks
        self._incidents = incidents
        self._executor = DaemonExecutor("rag-eval-hooks-sinks")

    async def deliver(self, sample: Sample, outcomes: Outcomes) -> None:
        """Delivers to all sinks, one after the other."""
        loop = asyncio.get_running_loop()
        for sink in self._sinks:
            try:
                pending = await loop.run_in_executor(self._executor, sink.deliver, sample, outcomes)
                if inspect.isawaitable(pending):
                    await pending
            except Exception as error:  # noqa: BLE001 - the sink's edge
                self._incidents.report(f"sink {_name(sink)}", error)

    async def close(self) -> None:
        """Closes the sinks, after what was delivered before."""
        loop = asyncio.get_running_loop()
        for sink in self._sinks:
            try:
                await loop.run_in_executor(self._executor, sink.close)
            except Exception as error:  # noqa: BLE001 - the sink's edge
                self._incidents.report(f"sink {_name(sink)}", error)
        self._executor.shutdown()


def _name(sink: Sink) -> str:
    return type(sink).__name__
