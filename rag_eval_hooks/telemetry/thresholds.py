"""Pass and fail of scores by the thresholds of the settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.explanation_text import one_line
from rag_eval_hooks.metrics import Metric
from rag_eval_hooks.score import UNIT, NotScored, Outcomes, Scale, Score

__all__ = ["REASON_CHARS", "Thresholds"]

REASON_CHARS: Final = 300
"""Characters of one line of explanation."""


class Thresholds:
    """Compares scores with thresholds, in the scale of each metric.

    A score passes at its threshold and on its good side: above it, or below it if lower is better.

    Raises:
        ConfigError: An id names none of the metrics, or a value lies outside the metric's scale.
    """

    def __init__(self, limits: Mapping[str, float], metrics: Iterable[Metric]) -> None:
        self._scales = {metric.id: metric.scale for metric in metrics}
        self._limits = dict(limits)
        for metric_id, limit in limits.items():
            _check(metric_id, limit, self._scales)

    def words(self, metric_id: str) -> str | None:
        """Return the bound of a metric in words, such as `at least 0.80`; None if it has none."""
        limit = self._limits.get(metric_id)
        if limit is None:
            return None
        return f"at {'least' if self._scales[metric_id].higher_is_better else 'most'} {limit:.2f}"

    def reason(self, metric_id: str, score: Score, *, content: bool) -> str:
        """Return one line: what failed first, the value and the threshold.

        Args:
            metric_id: The metric.
            score: Its score.
            content: Whether the line may quote the application's texts.
        """
        words = one_line(score.explanation, REASON_CHARS, content=content)
        value = ", ".join(filter(None, (f"{score.value:.2f}", self.words(metric_id))))
        return f"{words or metric_id} ({value})"

    def missed_by(self, metric_id: str, score: Score) -> float:
        """Return the share of the scale between a score and its threshold; 0 or less: it passes."""
        scale = self._scales[metric_id]
        distance = (self._limits[metric_id] - score.value) / (scale.high - scale.low)
        return distance if scale.higher_is_better else -distance

    def is_rescaled(self, metric_id: str) -> bool:
        """Return whether a metric's own scale is another than 0 (worst) to 1 (best)."""
        return self._scales.get(metric_id, UNIT) != UNIT

    def verdicts(self, outcomes: Outcomes) -> dict[str, bool]:
        """Return True (pass) or False for each scored metric that has a threshold."""
        return {
            name: self.missed_by(name, outcome) <= 0.0
            for name in self._limits
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
