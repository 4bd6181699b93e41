"""Interpretation of high and low scores together, by fixed rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rag_eval_hooks.metrics.formulas import mean
from rag_eval_hooks.results.aggregate import Group

__all__ = ["EXCELLENT", "HIGH", "LOW", "RULES", "ScorePattern", "rules_met"]

HIGH: Final = 0.8
"""Least normalised mean that counts as high."""
LOW: Final = 0.5
"""Normalised mean below which a metric counts as low."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorePattern:
    """A pattern of means and what to look for where it shows.

    Attributes:
        name: A short name.
        meaning: What the pattern may mean.
        high: Metrics, or suites as the mean of their metrics, that are high.
        low: The same that are low.
    """

    name: str
    meaning: str
    high: tuple[str, ...] = ()
    low: tuple[str, ...] = ()

    def met_by(self, group: Group, *, high: float = HIGH, low: float = LOW) -> bool:
        """Return whether all the named means are as the rule says; False if one has no score."""
        tops = [_level(group, name) for name in self.high]
        lows = [_level(group, name) for name in self.low]
        return all(level is not None and level >= high for level in tops) and all(
            level is not None and level < low for level in lows
        )


RULES: Final = (
    ScorePattern(
        name="exact but incomplete",
        meaning="The answer is right, yet details or context may be missing.",
        high=("lexical.exact_match",),
        low=("lexical.keyword_coverage",),
    ),
    ScorePattern(
        name="right but phrased otherwise",
        meaning="The information is there, in other words or among more than was asked for.",
        high=("lexical.keyword_coverage",),
        low=("lexical.exact_match",),
    ),
    ScorePattern(
        name="right concepts, wrong numbers",
        meaning="The right things are named with wrong values: critical where results count.",
        high=("lexical.keyword_coverage",),
        low=("lexical.number_match",),
    ),
    ScorePattern(
        name="sources not named",
        meaning="Answers cannot be traced, which makes them hard to verify and to debug.",
        low=("lexical.source_citation",),
    ),
    ScorePattern(
        name="matches the reference, not the contexts",
        meaning=(
            "Answers meet expectations without being grounded in what was retrieved: they may "
            "be fitted to the expected form."
        ),
        high=("lexical",),
        low=("ragas",),
    ),
)
EXCELLENT: Final = ScorePattern(
    name="high throughout", meaning="The system does well in every respect that was measured."
)


def rules_met(group: Group, *, high: float = HIGH, low: float = LOW) -> tuple[ScorePattern, ...]:
    """Return the rules that a group of results meets.

    Args:
        group: The results.
        high: Least normalised mean that counts as high.
        low: Normalised mean below which one counts as low.
    """
    levels = [summary.normalised_mean for summary in group.metrics.values() if summary.scored]
    if levels and all(level is not None and level >= high for level in levels):
        return (EXCELLENT,)
    return tuple(rule for rule in RULES if rule.met_by(group, high=high, low=low))


def _level(group: Group, name: str) -> float | None:
    """Return the normalised mean of a metric, or of a suite's metrics, in [0, 1]."""
    levels = [
        summary.normalised_mean
        for metric, summary in group.metrics.items()
        if name in (metric, metric.partition(".")[0])
    ]
    return mean([level for level in levels if level is not None])
