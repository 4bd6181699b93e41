"""`Evaluation`: the result of evaluating one sample, which telemetry and sinks receive."""

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
        sample: The evaluated sample. Its `trace_id` and `span_id` name the RAG span.
        outcomes: Each metric's score, or the reason why the score is missing, by metric id.
        probability: Inclusion probability of the sample, or None without random sampling.
        start: Start of the evaluation in nanoseconds since the epoch, or 0 if unknown.
        end: End of the evaluation in nanoseconds since the epoch, or 0 if unknown.
        reason: Why the sample was chosen for evaluation, as in `Score.reason`.
        verdicts: Whether a score reached its threshold, by metric id. Contains only metrics that
            have a threshold.
        passed: Whether all scores reached their thresholds, or None if unknown.
        log: Judge calls of the evaluation. Empty unless the setting `trace_judge` is on.
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
        """Start of the request in UTC, or None if unknown.

        If the sample has no end time, the start derives from the start of the evaluation.
        """
        ended = self.sample.ended_at or self.start
        return _utc(ended / 1e9 - (self.sample.latency or 0.0)) if ended else None

    @property
    def evaluated(self) -> datetime | None:
        """End of the evaluation in UTC, or None if unknown."""
        return _utc(self.end / 1e9) if self.end else None

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / 1e9

    @cached_property
    def scores(self) -> Mapping[str, Score]:
        """Scores by metric id. Metrics without a score are absent."""
        return {k: v for k, v in self.outcomes.items() if isinstance(v, Score)}

    @cached_property
    def unscored(self) -> Mapping[str, NotScored]:
        """Scores that are missing because of a failure or an unsure judge, by metric id."""
        pairs = self.outcomes.items()
        return {k: v for k, v in pairs if isinstance(v, NotScored) and v.is_missing}

    @property
    def lacks_judge(self) -> bool:
        """True if the judge failed, and no score comes from the judge."""
        causes = {outcome.cause for outcome in self.unscored.values()}
        if causes.isdisjoint(_OF_JUDGE):
            return False
        return not any(score.judged for score in self.scores.values())

    @property
    def status(self) -> EvalStatus:
        """Status of the evaluation, which the RAG span shows.

        - `ok`: No score is missing because of a failure or an unsure judge.
        - `partial`: Some scores are missing, or the judge was unsure.
        - `error`: All scores are missing, because of failures.

        Scores that are missing for any other reason, such as a missing input, do not count.
        """
        if not self.unscored:
            return EvalStatus.OK
        is_part = bool(self.scores) or any(one.undecided for one in self.unscored.values())
        return EvalStatus.PARTIAL if is_part else EvalStatus.ERROR

    def label(self, metric_id: str) -> str | None:
        """Return the label of a metric's score.

        If the score has no label, return `pass` or `fail`, or None without a threshold.
        """
        score = self.scores[metric_id]
        if score.label is None and metric_id in self.verdicts:
            return "pass" if self.verdicts[metric_id] else "fail"
        return score.label


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
