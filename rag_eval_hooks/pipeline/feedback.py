"""Joins a feedback with the interaction that it is about, and does what follows from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from rag_eval_hooks.books.stats import Ledger
from rag_eval_hooks.decision import RATE_LIMIT, Decision
from rag_eval_hooks.delivery.delivery import Delivery
from rag_eval_hooks.feedback import Feedback, id_of
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.pipeline.feedback_memory import Joinable, Recent
from rag_eval_hooks.pipeline.judging import Judging
from rag_eval_hooks.pipeline.offer import Offer, as_judged
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.sampling.selection import Asked, Selection, by_feedback
from rag_eval_hooks.score import Cause, NotScored, Outcomes

__all__ = ["FeedbackWork", "Joining"]


@dataclass(slots=True, eq=False)
class FeedbackWork:
    """A feedback on its way through the queue.

    Attributes:
        feedback: What was said.
        entry: What it is about.
        ticket: In the ledger.
        told: Whether the sinks were called with it.
    """

    feedback: Feedback
    entry: Joinable
    ticket: int
    told: bool = False

    @property
    def size(self) -> int:
        """Characters that it keeps in memory."""
        return len(self.feedback.reference or "") + len(self.feedback.label or "")


class Joining:
    """Remembers what ended, and brings feedback to it. Thread-safe but for `handle`.

    Args:
        recent: What is remembered.
        selection: Decides what a feedback asks for.
        judging: Evaluates.
        delivery: Where feedback and outcomes go.
        ledger: The books.
        incidents: Where samples that cannot be built are counted.
        most: Feedback that may wait for evaluations that still go on.
    """

    def __init__(
        self,
        recent: Recent,
        selection: Selection,
        judging: Judging,
        delivery: Delivery,
        ledger: Ledger,
        incidents: Incidents,
        most: int,
    ) -> None:
        self._recent = recent
        self._selection = selection
        self._judging = judging
        self._delivery = delivery
        self._ledger = ledger
        self._incidents = incidents
        self._most = most
        self._waiting: set[FeedbackWork] = set()

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

    def queue(self, work: FeedbackWork, submit: Callable[..., str | None]) -> str | None:
        """Queues a feedback, behind the interaction's own evaluation. Never blocks.

        It takes no place in the evaluator while it waits for that.

        Args:
            work: The feedback.
            submit: Of the evaluator.

        Returns:
            None when it is taken, else why not.
        """
        done = work.entry.done
        if done is None or done.done():
            return submit(work, work.size)
        if len(self._waiting) >= self._most:
            return "queue_full"
        self._waiting.add(work)
        done.add_done_callback(lambda _: self._resume(work, submit))
        return None

    def _resume(self, work: FeedbackWork, submit: Callable[..., str | None]) -> None:
        self._waiting.discard(work)
        if submit(work, work.size, promised=True) is not None:
            self.end(work)

    async def handle(self, work: FeedbackWork) -> None:
        """Delivers a feedback, and evaluates what it asks for."""
        entry = work.entry
        sample = self._sample(entry)
        feedback = replace(
            work.feedback,
            sample_id=None if sample is None else sample.sample_id,
            trace_id=entry.trace_id,
            span_id=entry.span_id,
        )
        await self._delivery.deliver_feedback(feedback)
        work.told = True
        asked = None if sample is None else await self._asked(feedback, sample, entry)
        if asked is not None:
            await self._evaluate(entry, asked)

    def end(self, work: FeedbackWork) -> None:
        """Whatever ended the work: what no sink was told by then is lost."""
        if not work.told:
            self._incidents.count("feedback: lost")
        self._ledger.end_errand(work.ticket)

    async def _asked(self, feedback: Feedback, sample: Sample, entry: Joinable) -> Asked | None:
        """What a feedback asks for, of the sample with the reference of a golden question."""
        asked = self._selection.asked_by(feedback, sample, entry)
        if asked is None or asked.sample.reference is not None:
            return asked
        similar = await self._judging.with_alike(sample)
        # Anew: another feedback may have asked for the same meanwhile.
        return self._selection.asked_by(feedback, similar, entry)

    def _sample(self, entry: Joinable) -> Sample | None:
        """The interaction's sample, the same for each feedback; None where only ids are kept."""
        if entry.build is None:
            return None
        try:
            sample = self._judging.with_equal(as_judged(entry.build()))
        except Exception as error:  # noqa: BLE001 - the host's edge: it reads the host's objects
            self._incidents.report("feedback", error)
            self.unreadable(entry)
            return None
        self._recent.update(entry, sample, (), [id_of(sample.sample_id)])
        return sample

    async def _evaluate(self, entry: Joinable, asked: Asked) -> None:
        fed = self._selection.fed(asked)
        if not fed:
            return
        admitted, admission = self._selection.admit()
        if not admitted:
            self._ledger.note("decisions", RATE_LIMIT)
            self._ledger.dropped(RATE_LIMIT)
            return
        ticket = self._ledger.accepted(*entry.ids[:1])
        self._ledger.identify(ticket, asked.sample.sample_id)
        # Claimed before the first wait: another feedback must not ask for the same. What lacks a
        # reference is not: a later feedback may bring one.
        entry.evaluated |= fed
        try:
            self._ledger.note("decisions", next(iter(asked.reasons.values())))
            start, began = time.time_ns(), time.monotonic_ns()
            outcomes = await self._judging.only(asked.sample, frozenset(asked.reasons))
            outcomes = by_feedback(outcomes, asked, admission)
            self._recent.update(entry, asked.sample, _settled(outcomes))
            end = start + time.monotonic_ns() - began
            self._judging.publish_late(asked.sample, outcomes, start, end)
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
