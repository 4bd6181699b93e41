"""Pass or fail by the user's thresholds, in each metric's scale and direction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.metrics import Metric
from rag_eval_hooks.score import NotScored, Outcomes, Score

__all__ = ["Thresholds"]


class Thresholds:
    """Compares scores with thresholds.

    Args:
        limits: Threshold by metric id, in the metric's scale. A score passes at the threshold and
            on its good side: above it, or below it if lower is better.
        metrics: Metrics that are measured.

    Raises:
        ConfigError: An id names none of the metrics, or a value lies outside the metric's scale.
    """

    def __init__(self, limits: Mapping[str, float], metrics: Iterable[Metric]) -> None:
        known = {metric.id: metric for metric in metrics}
        for metric_id, limit in limits.items():
            _check(metric_id, limit, known)
        self._limits = {name: (limit, known[name].scale) for name, limit in limits.items()}

    def verdicts(self, outcomes: Outcomes) -> dict[str, bool]:
        """Return True (pass) or False for each scored metric that has a threshold."""
        return {
            name: outcome.value >= limit if scale.higher_is_better else outcome.value <= limit
            for name, (limit, scale) in self._limits.items()
            if isinstance(outcome := outcomes.get(name), Score)
        }

    def passed(self, outcomes: Outcomes, verdicts: Mapping[str, bool]) -> bool | None:
        """Return True if the sample passes, False if it fails, None if that is unknown.

        It fails if one metric fails. It is unknown if no metric with a threshold was scored, or
        if one of them failed to be scored.
        """
        if not all(verdicts.values()):
            return False
        unscored = (outcomes.get(name) for name in self._limits if name not in verdicts)
        if any(isinstance(one, NotScored) and one.cause.is_failure for one in unscored):
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
