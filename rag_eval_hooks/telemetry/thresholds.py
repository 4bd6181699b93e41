"""Pass or fail: a user's thresholds, in each metric's own scale and direction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.metrics import Metric
from rag_eval_hooks.score import NotScored, Outcomes, Score

__all__ = ["Thresholds"]


class Thresholds:
    """Tells for each metric with a threshold whether its score is good enough.

    Args:
        limits: Threshold by metric id, in the metric's own scale. A score passes at the threshold
            or on its good side: above it, or below it where lower is better.
        metrics: The metrics that are measured.

    Raises:
        ConfigError: An id is none of the metrics, or a value lies outside the metric's scale.
    """

    def __init__(self, limits: Mapping[str, float], metrics: Iterable[Metric]) -> None:
        known = {metric.id: metric for metric in metrics}
        for metric_id, limit in limits.items():
            _check(metric_id, limit, known)
        self._limits = {name: (limit, known[name].scale) for name, limit in limits.items()}

    def verdicts(self, outcomes: Outcomes) -> dict[str, bool]:
        """Whether each scored metric that has a threshold passes."""
        return {
            name: outcome.value >= limit if scale.higher_is_better else outcome.value <= limit
            for name, (limit, scale) in self._limits.items()
            if isinstance(outcome := outcomes.get(name), Score)
        }

    def passed(self, outcomes: Outcomes, verdicts: Mapping[str, bool]) -> bool | None:
        """Whether the sample passes.

        Returns:
            False as soon as one metric fails its threshold. Otherwise None where nothing with a
            threshold was scored, or one of them should have been and was not: what is unknown
            is no pass.
        """
        if not all(verdicts.values()):
            return False
        unknown = (outcomes.get(name) for name in self._limits if name not in verdicts)
        if any(isinstance(found, NotScored) and found.cause.is_failure for found in unknown):
            return None
        return True if verdicts else None


def _check(metric_id: str, limit: float, known: Mapping[str, Metric]) -> None:
    if metric_id not in known:
        wants = "metrics that are measured: " + ", ".join(sorted(known))
        raise ConfigError("thresholds", metric_id, wants)
    scale = known[metric_id].scale
    if not scale.low <= limit <= scale.high:
        wants = f"a number from {scale.low:g} to {scale.high:g} for {metric_id}"
        raise ConfigError("thresholds", limit, wants)
