"""Joins a feedback with the interaction that it is about, and does what follows from it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from rag_eval_hooks.feedback import Feedback, id_of
from rag_eval_hooks.pipeline.delivery import Delivery
from rag_eval_hooks.pipeline.judging import Judging
from rag_eval_hooks.pipeline.ledger import Ledger
from rag_eval_hooks.pipeline.offer import Offer
from rag_eval_hooks.pipeline.recent import Joinable, Recent
from rag_eval_hooks.pipeline.sampler import Decision
from rag_eval_hooks.pipeline.selection import Asked, Selection, by_feedback
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored, Outcomes

__all__ = ["RATE_LIMIT", "FeedbackWork", "Joining"]

RATE_LIMIT: Final = "rate_limit"
"""Why a sample was dropped, or a feedback asked in vain: the limit had no room."""


@dataclass(frozen=True, slots=True)
class FeedbackWork:
    """A feedback on its way through the queue.

    Attributes:
        feedback: What was said.
        entry: What it is about.
        ticket: In the ledger.
    """

    feedback: Feedback
    entry: Joinable
    ticket: int


class Joining:
    """Remembers what ended, and brings feedback to it. Thread-safe but for `handle`.

    Args:
        recent: What is remembered.
        selection: Decides what a feedback asks for.
        judging: Evaluates.
        delivery: Where feedback and outcomes go.
        ledger: The books.
        patience: Seconds to wait for an evaluation that is still going on.
    """

    def __init__(
        self,
        recent: Recent,
        selection: Selection,
        judging: Judging,
        delivery: Delivery,
        ledger: Ledger,
        patience: float,
    ) -> None:
        self._recent = recent
        self._selection = selection
        self._judging = judging
        self._delivery = delivery
        self._ledger = ledger
        self._patience = patience

    def remember(self, offer: Offer, decision: Decision | None, *, accepted: bool) -> Joinable:
        """Keeps an ended interaction: as a whole where a feedback may ask for its evaluation.

        Args:
            offer: The interaction.
            decision: The sampler's, or None where it was not asked.
            accepted: Whether it is going to be evaluated.
        """
        whole = accepted or (decision is not None and self._selection.keeps_all)
        entry = Joinable(
            ids=offer.ids,
            trace_id=offer.trace_id,
            span_id=offer.span_id,
            decision=decision,
            build=offer.sample if whole else None,
            size=offer.size if whole else 0,
        )
        if accepted:
            entry.begin()
        self._recent.add(entry)
        return entry

    def evaluated(
        self, entry: Joinable, sample: Sample, decision: Decision, outcomes: Outcomes
    ) -> None:
        """Notes that an interaction was evaluated."""
        entry.decision = decision
        self._recent.update(entry, sample, _settled(outcomes), [id_of(sample.sample_id)])

    def passed_over(self, entry: Joinable, sample: Sample, decision: Decision) -> None:
        """Notes that one was looked at and not chosen."""
        entry.decision = decision
        if self._selection.keeps_all:
            self._recent.update(entry, sample, (), [id_of(sample.sample_id)])
        else:
            self._recent.strip(entry, [id_of(sample.sample_id)])

    def unreadable(self, entry: Joinable) -> None:
        """Notes that the sample of one cannot be built: only its ids are kept."""
        self._recent.strip(entry)

    def find(self, names: Iterable[str]) -> Joinable | None:
        """The latest interaction with one of the ids, if it is still remembered."""
        return self._recent.find(names)

    async def handle(self, work: FeedbackWork) -> None:
        """Delivers a feedback, and evaluates what it asks for."""
        entry = work.entry
        await self._settled(entry)
        sample = None if entry.build is None else entry.build()
        feedback = replace(
            work.feedback,
            sample_id=None if sample is None else sample.sample_id,
            trace_id=entry.trace_id,
            span_id=entry.span_id,
        )
        await self._delivery.deliver_feedback(feedback)
        asked = None if sample is None else self._selection.asked_by(feedback, sample, entry)
        if asked is not None:
            await self._evaluate(entry, asked)

    async def _settled(self, entry: Joinable) -> None:
        """Waits for the interaction's own evaluation, which was queued before."""
        if entry.done is not None and not entry.done.done():
            waiting = asyncio.shield(asyncio.wrap_future(entry.done))
            await asyncio.wait([waiting], timeout=self._patience)

    async def _evaluate(self, entry: Joinable, asked: Asked) -> None:
        admitted, admission = self._selection.admit()
        if not admitted:
            self._ledger.note("decisions", RATE_LIMIT)
            self._ledger.dropped(RATE_LIMIT)
            return
        ticket = self._ledger.accepted(*entry.ids[:1])
        self._ledger.identify(ticket, asked.sample.sample_id)
        # Claimed before the first wait: another feedback must not ask for the same.
        entry.evaluated |= frozenset(asked.reasons)
        try:
            self._ledger.note("decisions", next(iter(asked.reasons.values())))
            start, began = time.time_ns(), time.monotonic_ns()
            outcomes = await self._judging.only(asked.sample, frozenset(asked.reasons))
            outcomes = by_feedback(outcomes, asked, admission)
            self._recent.update(entry, asked.sample, _settled(outcomes))
            self._judging.publish_late(
                asked.sample, outcomes, start, start + time.monotonic_ns() - began
            )
            await self._delivery.deliver(asked.sample, outcomes)
            self._judging.settle(ticket, outcomes)
        finally:
            # Whatever ended it: what is not settled by then was cancelled.
            self._ledger.settle_dropped(ticket, "shutdown")


def _settled(outcomes: Outcomes) -> list[str]:
    """Metrics that a feedback need not ask for again."""
    open_ = (Cause.MISSING_INPUT, Cause.SAMPLED_OUT)
    return [
        name
        for name, outcome in outcomes.items()
        if not (isinstance(outcome, NotScored) and outcome.cause in open_)
    ]
