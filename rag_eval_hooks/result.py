"""`Evaluation`, the result that telemetry and sinks receive."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

from rag_eval_hooks.calls import Call
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored, Outcomes, Score
from rag_eval_hooks.semconv import EvalStatus

_OF_JUDGE: Final = frozenset({Cause.JUDGE_FAILED, Cause.JUDGE_UNAVAILABLE, Cause.TIMEOUT})


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The result of evaluating one sample.

    Attributes:
        sample: The evaluated sample. `trace_id` and `span_id` name the RAG span.
        outcomes: Outcomes by metric id.
        probability: Inclusion probability of the sample, or None without random sampling.
        start: Start of the evaluation in nanoseconds since the epoch, or 0 if unknown.
        end: End of the evaluation in nanoseconds since the epoch, or 0 if unknown.
        reason: Sampling reason of the sample, as in `Score.reason`.
        verdicts: For each metric that has a threshold, whether the score passed. By metric id.
        passed: Whether the sample passed all thresholds, or None if unknown.
        log: Judge calls of the evaluation. Empty unless `trace_judge` is on.
    """

    sample: Sample
    outcomes: Outcomes
    probability: float | None = None
    start: int = 0
    end: int = 0
    reason: str = ""
    verdicts: Mapping[str, bool] = field(default_factory=dict)
    passed: bool | None = None
    log: Collection[Call] = ()

    @property
    def time(self) -> datetime | None:
        """Start of the request in UTC, or start of the evaluation. None if both are unknown."""
        ended = self.sample.ended_at or self.start
        return _utc(ended / 1e9 - (self.sample.latency or 0.0)) if ended else None

    @property
    def evaluated(self) -> datetime | None:
        """End of the evaluation in UTC."""
        return _utc(self.end / 1e9) if self.end else None

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / 1e9

    @cached_property
    def scores(self) -> Mapping[str, Score]:
        """Scores by metric id, without missing scores."""
        return {k: v for k, v in self.outcomes.items() if isinstance(v, Score)}

    @cached_property
    def unscored(self) -> Mapping[str, NotScored]:
        """Missing scores that a retry or another judge could provide."""
        pairs = self.outcomes.items()
        return {k: v for k, v in pairs if isinstance(v, NotScored) and v.is_missing}

    @property
    def lacks_judge(self) -> bool:
        """True if the judge failed, and only metrics without a judge have scores."""
        causes = {outcome.cause for outcome in self.unscored.values()}
        if causes.isdisjoint(_OF_JUDGE):
            return False
        return not any(score.judged for score in self.scores.values())

    @property
    def status(self) -> EvalStatus:
        """Status of the RAG span.

        `partial`: some scores are missing, or the judge was unsure. `error`: every score is
        missing because of a failure. The status ignores a metric if the sample lacks an input of
        the metric, or if the value is undefined.
        """
        if not self.unscored:
            return EvalStatus.OK
        is_part = bool(self.scores) or any(one.undecided for one in self.unscored.values())
        return EvalStatus.PARTIAL if is_part else EvalStatus.ERROR

    def label(self, metric_id: str) -> str | None:
        """Return the score's label. For a score without a label, return `pass`, `fail` or None."""
        score = self.scores[metric_id]
        if score.label is None and metric_id in self.verdicts:
            return "pass" if self.verdicts[metric_id] else "fail"
        return score.label


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
