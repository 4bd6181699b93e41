"""End of a request: its evaluation, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final

from rag_eval_hooks._version import __version__
from rag_eval_hooks.calls import CallLog
from rag_eval_hooks.decision import Decision
from rag_eval_hooks.explanation_text import explain
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored, Outcomes, Score
from rag_eval_hooks.semconv import EvalStatus

__all__ = ["BUDGET", "PARTIAL", "Column", "Ending", "Evaluation", "status_of", "unscored_of"]

PARTIAL: Final = "partial"
"""Reason of samples of which only metrics that need no judge have a score, as the judge failed."""
BUDGET: Final = "budget"
"""Reason of metrics that the budget refused, and of samples that it left without a score."""
_OF_JUDGE: Final = frozenset({Cause.JUDGE_FAILED, Cause.JUDGE_UNAVAILABLE, Cause.TIMEOUT})


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Result of evaluating one sample: what telemetry and sinks receive.

    Attributes:
        sample: The evaluated sample; its trace and span ids name the RAG span, if there is one.
        outcomes: Outcome by metric id.
        probability: Inclusion probability of the sample, 0 to 1, or None if no draw chose it.
        start: Start of the evaluation in nanoseconds since the epoch.
        end: End of the evaluation in nanoseconds since the epoch.
        reason: Reason why the sample was chosen, in a word.
        verdicts: Pass or fail of the scored metrics that have a threshold.
        passed: Pass or fail of the sample, or None if that is unknown.
        log: Judge calls of the evaluation, if they are recorded.
    """

    sample: Sample
    outcomes: Outcomes
    probability: float | None
    start: int
    end: int
    reason: str = ""
    verdicts: Mapping[str, bool] = field(default_factory=dict)
    passed: bool | None = None
    log: CallLog = field(default_factory=CallLog)

    @property
    def seconds(self) -> float:
        """Duration of the evaluation in seconds."""
        return (self.end - self.start) / 1e9

    @cached_property
    def scores(self) -> Mapping[str, Score]:
        """Outcomes that are scores."""
        return {k: v for k, v in self.outcomes.items() if isinstance(v, Score)}

    @cached_property
    def unscored(self) -> Mapping[str, NotScored]:
        """Outcomes that should have been scores."""
        return unscored_of(self.outcomes)

    @property
    def lacks_judge(self) -> bool:
        """True if the judge failed and no score is its."""
        failed = {outcome.cause for outcome in self.unscored.values()}
        return not failed.isdisjoint(_OF_JUDGE) and not any(
            # The version of a judge's prompts or rules stands behind that of the package.
            score.version.startswith(f"{__version__}+")
            for score in self.scores.values()
        )

    @property
    def status(self) -> EvalStatus:
        """Status as on the RAG span."""
        return status_of(self.outcomes)

    def label(self, metric_id: str) -> str | None:
        """Return the metric's own label of its score, else pass or fail by its threshold."""
        score = self.scores[metric_id]
        if score.label is None and metric_id in self.verdicts:
            return "pass" if self.verdicts[metric_id] else "fail"
        return score.label

    def explanation(self, metric_id: str, limit: int, *, content: bool) -> str | None:
        """Return a score's explanation as bounded JSON; built once for equal arguments.

        Args:
            metric_id: Id of a metric that has a score.
            limit: Characters at most.
            content: Whether texts of the application may be included.
        """
        key = metric_id, limit, content
        if key not in self._explained:
            explanation = self.scores[metric_id].explanation
            self._explained[key] = explain(explanation, limit, content=content)
        return self._explained[key]

    @cached_property
    def _explained(self) -> dict[tuple[str, int, bool], str | None]:
        return {}


def status_of(outcomes: Outcomes) -> EvalStatus:
    """Return `ok` if no score is missing, `partial` if some are, `error` if all are.

    A metric that the sample cannot feed, or that is undefined for it, has not failed.
    """
    if not unscored_of(outcomes):
        return EvalStatus.OK
    scored = any(isinstance(outcome, Score) for outcome in outcomes.values())
    return EvalStatus.PARTIAL if scored else EvalStatus.ERROR


def unscored_of(outcomes: Outcomes) -> dict[str, NotScored]:
    """Return the outcomes that should have been scores."""
    return {
        name: outcome
        for name, outcome in outcomes.items()
        if isinstance(outcome, NotScored) and outcome.cause.is_failure
    }


class Column(StrEnum):
    """Columns of the statistics in which a request can end."""

    SCORED = "scored"
    SAMPLED_OUT = "sampled_out"
    DROPPED = "dropped"
    FAILED = "failed"
    SHIPPED = "shipped"
    """A worker on another machine evaluates and counts it."""


@dataclass(frozen=True, slots=True)
class Ending:
    """End of a request: exactly one column, with the reason.

    Attributes:
        column: Column of the statistics.
        reason: Reason of a drop or failure; for a sample that was left out, the origin of the
            rate that left it out. Empty for a scored one.
        evaluation: The evaluation, if there was one.
        probability: Inclusion probability of a sample that was left out.
    """

    column: Column
    reason: str = ""
    evaluation: Evaluation | None = None
    probability: float | None = None

    @classmethod
    def dropped(cls, reason: str) -> Ending:
        """Return the end of a request that is not evaluated."""
        return cls(Column.DROPPED, reason)

    @classmethod
    def failed(cls, cause: Cause) -> Ending:
        """Return the end of a request whose evaluation raised."""
        return cls(Column.FAILED, cause.value)

    @classmethod
    def sampled_out(cls, decision: Decision) -> Ending:
        """Return the end of a request that was not chosen."""
        return cls(Column.SAMPLED_OUT, reason=decision.because, probability=decision.probability)

    @classmethod
    def of(cls, evaluation: Evaluation) -> Ending:
        """Return the end of an evaluated request: scored, refused by the budget, or failed."""
        if evaluation.scores and evaluation.lacks_judge:
            return cls(Column.FAILED, PARTIAL, evaluation)
        if evaluation.scores:
            return cls(Column.SCORED, evaluation=evaluation)
        causes = [one.cause for one in evaluation.outcomes.values() if isinstance(one, NotScored)]
        if Cause.OVER_BUDGET in causes:
            return cls(Column.DROPPED, BUDGET, evaluation)
        # A metric that its own rate left out does not explain why the chosen ones have no score.
        chosen = [cause for cause in causes if cause is not Cause.SAMPLED_OUT]
        failures = [cause for cause in chosen if cause.is_failure]
        # Without any outcome, the sample feeds no metric.
        cause = next(iter(failures or chosen), Cause.MISSING_INPUT)
        return cls(Column.FAILED, cause.value, evaluation)

    @property
    def entry(self) -> str:
        """Column and reason as one text: `scored`, `sampled_out`, `dropped:<reason>`, ..."""
        if self.column in (Column.DROPPED, Column.FAILED):
            return f"{self.column.value}:{self.reason}"
        return self.column.value

    @property
    def absent(self) -> dict[str, str]:
        """Cause and detail of the metrics without a score; holds no content."""
        outcomes = {} if self.evaluation is None else self.evaluation.outcomes
        return {
            name: outcome.line
            for name, outcome in outcomes.items()
            if isinstance(outcome, NotScored)
        }

    @property
    def failures(self) -> list[str]:
        """Metrics whose score is missing, each with its cause: `<metric>: <cause>`."""
        unscored = {} if self.evaluation is None else self.evaluation.unscored
        return [f"{name}: {outcome.cause.value}" for name, outcome in unscored.items()]

    @property
    def refused(self) -> int:
        """Number of metrics that the budget refused."""
        outcomes = () if self.evaluation is None else self.evaluation.outcomes.values()
        return sum(
            isinstance(one, NotScored) and one.cause is Cause.OVER_BUDGET for one in outcomes
        )
