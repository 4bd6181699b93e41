"""Delivery to all sinks, with another try for those that did not take a result."""

from __future__ import annotations

from rag_eval_hooks.delivery.delivery import Delivery
from rag_eval_hooks.delivery.redelivery import Redelivery
from rag_eval_hooks.pipeline.spooled import Spooled
from rag_eval_hooks.work import Evaluation, Observer, Work

__all__ = ["Sinks"]


class Sinks(Observer):
    """Hands evaluations to sinks.

    Args:
        delivery: Calls the sinks.
        redelivery: Calls them again with what the spool keeps for them.
        spooled: The spool.
    """

    def __init__(self, delivery: Delivery, redelivery: Redelivery, spooled: Spooled) -> None:
        self._delivery = delivery
        self._redelivery = redelivery
        self._spooled = spooled

    async def evaluated(self, work: Work, evaluation: Evaluation) -> None:
        """Hand an evaluation to all sinks, and return when they took it or failed."""
        sample, outcomes = evaluation.sample, evaluation.outcomes
        positions = work.entry.positions if work.is_recovered else None
        can_wait = self._spooled.holds(work)
        missed = await self._delivery.deliver(sample, outcomes, positions, can_wait=can_wait)
        if missed and self._spooled.holds(work):
            self._spooled.redeliver(work)
            self._redelivery.add(work.entry, evaluation, missed)

    def stop(self) -> None:
        """Begin no further try."""
        self._redelivery.stop()
