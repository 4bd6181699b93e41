"""One evaluation: the reference that a golden question lends, the scores, the books."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager

from rag_eval_hooks.books.stats import Ledger
from rag_eval_hooks.evaluation.golden_references import References
from rag_eval_hooks.evaluation.scorer import Scorer
from rag_eval_hooks.judges.calls.budget import Budget
from rag_eval_hooks.judges.calls.context import in_call_context
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored, Outcomes, Score
from rag_eval_hooks.suppress import quiet
from rag_eval_hooks.telemetry.telemetry import Telemetry
from rag_eval_hooks.work import BUDGET

__all__ = ["Judging", "column_of", "is_refused"]


class Judging:
    """Evaluates samples within the budget, and settles them in the books.

    Args:
        scorer: Turns a sample into outcomes.
        references: Golden questions, or None.
        allowance: The budget of calls to judge and embedder, or None.
        ledger: The books.
        telemetry: Where calls, and what evaluations take, are recorded.
    """

    def __init__(
        self,
        scorer: Scorer,
        references: References | None,
        allowance: Budget | None,
        ledger: Ledger,
        telemetry: Telemetry,
    ) -> None:
        self._telemetry = telemetry
        self._scorer = scorer
        self._references = references
        self._allowance = allowance
        self._ledger = ledger

    def with_equal(self, sample: Sample) -> Sample:
        """The sample with the reference of an equal golden question."""
        return sample if self._references is None else self._references.equal(sample)

    async def with_alike(self, sample: Sample) -> Sample:
        """The sample with the reference of the most similar golden question."""
        if self._references is None:
            return sample
        with self._accounted():
            return await self._references.alike(sample)

    async def score(self, sample: Sample, chosen: Container[str] | None = None) -> Outcomes:
        """One outcome per metric; those that are not chosen are `sampled_out`."""
        with self._accounted():
            outcomes = await self._scorer.score(sample, chosen)
        self._telemetry.used(sample, outcomes)
        return outcomes

    async def only(self, sample: Sample, chosen: frozenset[str]) -> Outcomes:
        """One outcome per chosen metric, none for others."""
        outcomes = await self.score(sample, chosen)
        return {name: outcome for name, outcome in outcomes.items() if name in chosen}

    def publish_late(self, sample: Sample, outcomes: Outcomes, start: int, end: int) -> None:
        """Shows what a feedback had evaluated, where its RAG span can be found.

        Args:
            sample: What was evaluated.
            outcomes: The added ones.
            start: In nanoseconds since the epoch.
            end: The same.
        """
        drawn = [one.probability for one in outcomes.values() if one.probability is not None]
        evaluation = self._telemetry.evaluated(
            sample,
            outcomes,
            probability=max(drawn, default=None),
            reason=next((one.reason for one in outcomes.values()), ""),
            start=start,
            end=end,
        )
        self._telemetry.publish_late(evaluation)

    async def inline(self, sample: Sample) -> Outcomes:
        """The outcomes of all metrics, as online."""
        with quiet():
            return await self.score(await self.with_alike(self.with_equal(sample)))

    @contextmanager
    def _accounted(self) -> Iterator[None]:
        """Calls in the block are within the budget, and watched."""
        with in_call_context(budget=self._allowance, observer=self._telemetry.calls):
            yield

    def settle(self, ticket: int, outcomes: Outcomes) -> None:
        """Enters what became of an evaluated sample."""
        if refused := _causes(outcomes).count(Cause.OVER_BUDGET):
            self._ledger.note("refused", BUDGET, refused)
        column, _, reason = column_of(outcomes).partition(":")
        if column == "dropped":
            self._ledger.settle_dropped(ticket, reason)
        elif column == "scored":
            self._ledger.settle_scored(ticket, _absent(outcomes))
        else:
            self._ledger.settle_failed(ticket, reason, _absent(outcomes))


def column_of(outcomes: Outcomes) -> str:
    """Where a sample stands in the books: `scored`, `dropped:<reason>` or `failed:<cause>`."""
    if is_refused(outcomes):
        return f"dropped:{BUDGET}"
    if any(isinstance(outcome, Score) for outcome in outcomes.values()):
        return "scored"
    # What its rate left out is no reason why those that were chosen have no score.
    causes = [cause for cause in _causes(outcomes) if cause is not Cause.SAMPLED_OUT]
    failures = [cause for cause in causes if cause.is_failure]
    # No outcome at all: the sample feeds no metric.
    return f"failed:{next(iter(failures or causes), Cause.MISSING_INPUT).value}"


def _absent(outcomes: Outcomes) -> dict[str, str]:
    """Why metrics have no score; details of ours hold no content."""
    return {
        name: ", ".join(filter(None, (outcome.cause.value, outcome.detail)))
        for name, outcome in outcomes.items()
        if isinstance(outcome, NotScored)
    }


def _causes(outcomes: Outcomes) -> list[Cause]:
    return [outcome.cause for outcome in outcomes.values() if isinstance(outcome, NotScored)]


def is_refused(outcomes: Outcomes) -> bool:
    """Whether the budget left a sample no score."""
    scored = any(isinstance(outcome, Score) for outcome in outcomes.values())
    return not scored and any(
        isinstance(outcome, NotScored) and outcome.cause is Cause.OVER_BUDGET
        for outcome in outcomes.values()
    )
