"""Pass and fail of scores by the thresholds of the settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.metrics import Metric
from rag_eval_hooks.score import UNIT, NotScored, Outcomes, Scale, Score

__all__ = ["Threshold", "Thresholds"]


@dataclass(frozen=True, slots=True)
class Threshold:
    """Bound of a metric's score.

    Attributes:
        limit: In the metric's scale. A score passes at it and on its good side: above it, or
            below it if lower is better.
        scale: The metric's scale.
    """

    limit: float
    scale: Scale

    def passes(self, score: Score) -> bool:
        """Return whether a score passes."""
        return self.missed_by(score) <= 0.0

    def missed_by(self, score: Score) -> float:
        """Return by which share of the scale a score misses the threshold; 0 or less: it passes."""
        distance = (self.limit - score.value) / (self.scale.high - self.scale.low)
        return distance if self.scale.higher_is_better else -distance

    def __str__(self) -> str:
        """Return the bound in words, such as `at least 0.80`."""
        return f"at {'least' if self.scale.higher_is_better else 'most'} {self.limit:.2f}"


class Thresholds:
    """Compares scores with thresholds.

    Args:
        limits: Threshold by metric id, in the metric's scale.
        metrics: Metrics that are measured.

    Raises:
        ConfigError: An id names none of the metrics, or a value lies outside the metric's scale.
    """

    def __init__(self, limits: Mapping[str, float], metrics: Iterable[Metric]) -> None:
        self._scales = {metric.id: metric.scale for metric in metrics}
        for metric_id, limit in limits.items():
            _check(metric_id, limit, self._scales)
        self._by_metric = {
            name: Threshold(limit, self._scales[name]) for name, limit in limits.items()
        }

    def of(self, metric_id: str) -> Threshold | None:
        """Return the threshold of a metric, or None if it has none."""
        return self._by_metric.get(metric_id)

    def is_rescaled(self, metric_id: str) -> bool:
        """Return whether a metric's own scale is another than 0 (worst) to 1 (best)."""
        return self._scales.get(metric_id, UNIT) != UNIT

    def verdicts(self, outcomes: Outcomes) -> dict[str, bool]:
        """Return True (pass) or False for each scored metric that has a threshold."""
        return {
            name: threshold.passes(outcome)
            for name, threshold in self._by_metric.items()
            if isinstance(outcome := outcomes.get(name), Score)
        }

    def passed(self, outcomes: Outcomes, verdicts: Mapping[str, bool]) -> bool | None:
        """Return True if the sample passes, False if it fails, None if that is unknown.

        It fails if one metric fails. It is unknown if no metric with a threshold was scored, or
        if one of them failed to be scored.
        """
        if not all(verdicts.values()):
            return False
        unscored = (outcomes.get(name) for name in self._by_metric if name not in verdicts)
        if any(isinstance(one, NotScored) and one.is_missing for one in unscored):
            return None
        return True if verdicts else None


def _check(metric_id: str, limit: float, scales: Mapping[str, Scale]) -> None:
    if metric_id not in scales:
        measured = f"`metrics`: {', '.join(sorted(scales))}"
        raise ConfigError.unknown("thresholds", metric_id, scales, listed=measured)
    scale = scales[metric_id]
    if not scale.low <= limit <= scale.high:
        wants = f"a number from {scale.low:g} to {scale.high:g} for {metric_id}"
        raise ConfigError("thresholds", limit, wants)
