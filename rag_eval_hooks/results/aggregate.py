"""Summary of many samples' outcomes, and its interpretation by fixed rules.

An absence is counted by its cause, and is in no mean. Source: the tables of GraphRAG Evaluation
Metrics (by method, by question type; best, worst, mean; distribution of grades; counts of classes).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from rag_eval_hooks.metrics.formulas import mean
from rag_eval_hooks.metrics.graphrag import CORRECT, DONT_KNOW, WRONG
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored, Outcome, Outcomes, Score

__all__ = [
    "EXCELLENT",
    "HIGH",
    "LOW",
    "RULES",
    "Group",
    "MetricSummary",
    "ScorePattern",
    "aggregate",
    "rules_met",
]

Scored: TypeAlias = tuple[Sample, Outcomes]

_GRADED: Final = "graphrag.factual_accuracy_percentage"
_CLASSED: Final = "graphrag.answer_class"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSummary:
    """One metric over many samples.

    Attributes:
        metric: Its id.
        scored: Number of samples with a score.
        mean: Mean of the scores in the metric's native scale, or None for no score.
        best: The best score: the lowest where lower is better.
        worst: The worst score.
        normalised_mean: Mean of the scores in [0, 1], where 1 is best.
        labels: How many scores have each label, in order of first appearance.
        absences: How many samples have no score, by cause.
    """

    metric: str
    scored: int
    mean: float | None
    best: float | None
    worst: float | None
    normalised_mean: float | None
    labels: Mapping[str, int]
    absences: Mapping[Cause, int]

    @classmethod
    def of(cls, metric: str, outcomes: Sequence[Outcome]) -> MetricSummary:
        """Return the summary of one metric's outcomes."""
        scores = [outcome for outcome in outcomes if isinstance(outcome, Score)]
        ranked = sorted(scores, key=lambda score: score.normalised)
        return cls(
            metric=metric,
            scored=len(scores),
            mean=mean([score.value for score in scores]),
            best=ranked[-1].value if ranked else None,
            worst=ranked[0].value if ranked else None,
            normalised_mean=mean([score.normalised for score in scores]),
            labels=dict(Counter(s.label for s in scores if s.label is not None)),
            absences=dict(Counter(o.cause for o in outcomes if isinstance(o, NotScored))),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Samples that share a key.

    Attributes:
        key: The key's value as text, or None for samples without one.
        samples: Their number.
        metrics: Summary by metric id, in the metrics' order.
    """

    key: str | None
    samples: int
    metrics: Mapping[str, MetricSummary]

    @property
    def grades(self) -> Mapping[str, int]:
        """Return the number of answers by grade, A to E, zeros included."""
        return {grade: self._labelled(_GRADED, grade) for grade in "ABCDE"}

    @property
    def counts(self) -> Mapping[str, int]:
        """The counts of classified answers, by their names in the definition."""
        return {
            "correct_answers_count": self._labelled(_CLASSED, CORRECT),
            "wrong_answers_count": self._labelled(_CLASSED, WRONG),
            "dont_know_answers_count": self._labelled(_CLASSED, DONT_KNOW),
        }

    def _labelled(self, metric: str, label: str) -> int:
        summary = self.metrics.get(metric)
        return 0 if summary is None else summary.labels.get(label, 0)


def aggregate(
    results: Iterable[Scored], by: str | Callable[[Sample], object] | None = None
) -> dict[str | None, Group]:
    """Return groups of samples, in order of first appearance.

    Args:
        results: Samples with their outcomes.
        by: A key of the samples' metadata, or a function that gives the key's value; None for
            one group of all, under the key None.
    """
    grouped: dict[str | None, list[Outcomes]] = {}
    for sample, outcomes in results:
        grouped.setdefault(_key(sample, by), []).append(outcomes)
    return {key: _group(key, members) for key, members in grouped.items()}


def _key(sample: Sample, by: str | Callable[[Sample], object] | None) -> str | None:
    if by is None:
        return None
    value = by(sample) if callable(by) else sample.metadata.get(by)
    return None if value is None else str(value)


def _group(key: str | None, members: Sequence[Outcomes]) -> Group:
    columns: dict[str, list[Outcome]] = {}
    for outcomes in members:
        for metric, outcome in outcomes.items():
            columns.setdefault(metric, []).append(outcome)
    summaries = {metric: MetricSummary.of(metric, column) for metric, column in columns.items()}
    return Group(key=key, samples=len(members), metrics=summaries)


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
