"""Report of results: what a person decides by, as one value for every format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from rag_eval_hooks.results.compare import Comparison
from rag_eval_hooks.results.diagnose import Cuts, Diagnosis, diagnose
from rag_eval_hooks.results.labels import LabelledMean, Labels, labelled_means
from rag_eval_hooks.results.read import ResultRow, Results
from rag_eval_hooks.results.select import worst
from rag_eval_hooks.results.summary import MetricSummary, ResultGroup, band_of, summarise
from rag_eval_hooks.score import NotScored, Score
from rag_eval_hooks.usage import Usage

__all__ = ["ReportPeriod", "ResultReport", "as_json", "comparison_as_json", "make_report"]

_MOST_GROUPS: Final = 12
_ROW_KEY: Final = "dataset_row"
"""Key of the metadata under which `evaluate` stores the row of a data set."""
_BUILT_IN_KEYS: Final = ("workflow", "reason", "version")
_STEPS: Final = tuple(timedelta(hours=hours) for hours in (1, 6, 24, 24 * 7, 24 * 30))
_MOST_PERIODS: Final = 40
_WORST: Final = 20
"""Samples named, the worst first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPeriod:
    """Results of one stretch of time, which begins at `begin` in UTC."""

    begin: datetime
    group: ResultGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultReport:
    """Results in the form in which they are read."""

    title: str
    whole: ResultGroup
    groups: Mapping[str, Mapping[str | None, ResultGroup]]  # by key of the samples
    periods: Sequence[ReportPeriod]  # in equal steps of time; none for results of one step
    diagnoses: Sequence[Diagnosis]  # the most frequent first
    worst: Sequence[ResultRow]  # rows with a score, the worst first
    judges: Mapping[str, int]  # samples by judge and versions
    reasons: Mapping[str, Mapping[tuple[str, str], int]]  # by metric: samples by cause and detail
    usage: Mapping[str, Usage]  # by metric
    skipped: Mapping[str, int]  # lines that are no results, by reason
    labelled: Sequence[LabelledMean] = ()  # means by labels of a part of the samples

    @property
    def metrics(self) -> Sequence[MetricSummary]:
        """Summaries of all metrics, in their order."""
        return tuple(self.whole.metrics.values())

    @property
    def times(self) -> tuple[datetime, datetime] | None:
        """Time of the first and the last request; None where no time is known."""
        known = sorted(row.when for row in self.whole.rows if row.when is not None)
        return (known[0], known[-1]) if known else None

    @property
    def is_screening(self) -> bool:
        """Whether scores are of a judge that is not calibrated."""
        return any(one.is_screening for one in self.metrics)

    @property
    def total(self) -> Usage:
        """Usage of all metrics together."""
        return sum(self.usage.values(), start=Usage())


def make_report(
    rows: Iterable[ResultRow],
    *,
    by: Sequence[str] = (),
    title: str = "RAG evaluation",
    cuts: Mapping[str, Cuts] | None = None,
    labels: Labels | None = None,
    skipped: Mapping[str, int] | None = None,
) -> ResultReport:
    """Return the report of results.

    Args:
        rows: The results.
        by: Keys by which samples are grouped; by default every key of the metadata with 2 to 12
            values, the workflow, the reason of the choice, and the version.
        title: Name of the report.
        cuts: What is high and low, by metric id.
        labels: Labels of a random part of the samples, see `read_labels`.
        skipped: Lines that are no results, by reason; by default those that `rows` skipped.
    """
    known = list(rows)
    whole = summarise(known).get(None) or ResultGroup(key=None, rows=(), metrics={})
    grouped = {key: summarise(known, key) for key in by or _keys(known)}
    return ResultReport(
        title=title,
        whole=whole,
        groups=grouped if by else {k: g for k, g in grouped.items() if _tells_apart(g)},
        periods=_periods(known),
        diagnoses=diagnose(known, cuts=cuts),
        worst=worst(known),
        judges=_judges(known),
        reasons=_reasons(known),
        usage=_usage(known),
        labelled=labelled_means(known, labels or {}),
        skipped=dict(skipped or (rows.skipped if isinstance(rows, Results) else {})),
    )


def _keys(rows: Sequence[ResultRow]) -> list[str]:
    """Return the keys that may tell samples apart: the metadata's own, then the built-in ones."""
    values: dict[str, set[Any]] = {}
    for row in rows:
        for key, value in row.sample.metadata.items():
            if key == _ROW_KEY:
                continue
            seen = values.setdefault(key, set())
            if isinstance(value, str | int | bool) and len(seen) <= _MOST_GROUPS:
                seen.add(value)
    own = [key for key, seen in values.items() if 2 <= len(seen) <= _MOST_GROUPS]
    return [*own, *(key for key in _BUILT_IN_KEYS if key not in own)]


def _tells_apart(groups: Mapping[str | None, ResultGroup]) -> bool:
    return 2 <= len(groups) <= _MOST_GROUPS + 1


def _periods(rows: Sequence[ResultRow]) -> list[ReportPeriod]:
    """Return the results by equal steps of time, at most forty."""
    timed = [(row.when, row) for row in rows if row.when is not None]
    if not timed:
        return []
    first, last = min(time for time, _ in timed), max(time for time, _ in timed)
    step = next((s for s in _STEPS if (last - first) / s < _MOST_PERIODS), _STEPS[-1])
    begin = first.replace(minute=0, second=0, microsecond=0)
    if step >= timedelta(days=1):
        begin = begin.replace(hour=0)
    members: dict[int, list[ResultRow]] = {}
    for time, row in timed:
        members.setdefault((time - begin) // step, []).append(row)
    if len(members) < 2:
        return []
    return [
        ReportPeriod(begin=begin + number * step, group=summarise(members[number])[None])
        for number in sorted(members)
    ]


def _judges(rows: Iterable[ResultRow]) -> dict[str, int]:
    counts: Counter[tuple[str, str]] = Counter()
    screening = set()
    for row in rows:
        scores = [one for one in row.outcomes.values() if isinstance(one, Score)]
        counts.update({(score.annotator or "formulas", score.version) for score in scores})
        screening |= {score.annotator for score in scores if score.screening}
    return {_judge(*key, key[0] in screening): count for key, count in counts.most_common()}


def _judge(name: str, version: str, is_screening: bool) -> str:
    caution = "screening: good for finding, not for deciding" if is_screening else ""
    about = ", ".join(filter(None, (version, caution)))
    return f"{name} ({about})" if about else name


def _reasons(rows: Iterable[ResultRow]) -> dict[str, dict[tuple[str, str], int]]:
    counts: dict[str, Counter[tuple[str, str]]] = {}
    for row in rows:
        for metric, outcome in row.outcomes.items():
            if isinstance(outcome, NotScored):
                key = outcome.cause.value, outcome.detail
                counts.setdefault(metric, Counter())[key] += 1
    return {metric: dict(counter.most_common()) for metric, counter in counts.items()}


def _usage(rows: Iterable[ResultRow]) -> dict[str, Usage]:
    total: dict[str, Usage] = {}
    for row in rows:
        for metric, outcome in row.outcomes.items():
            if outcome.usage != Usage():
                total[metric] = total.get(metric, Usage()) + outcome.usage
    return total


def as_json(report: ResultReport) -> dict[str, Any]:
    """Return a report as plain types."""
    times = report.times
    groups = {
        key: {
            str(name): {"samples": group.samples, "metrics": _metrics_of(group)}
            for name, group in groups.items()
        }
        for key, groups in report.groups.items()
    }
    first = [
        {
            "pattern": one.rule.name,
            "blame": one.rule.blame,
            "meaning": one.rule.meaning,
            "advice": one.rule.advice,
            "share": asdict(one.share),
            "samples": [row.sample.sample_id for row in one.rows],
        }
        for one in report.diagnoses
    ]
    return {
        "title": report.title,
        "samples": report.whole.samples,
        "from": times and times[0].isoformat(),
        "to": times and times[1].isoformat(),
        "judges": dict(report.judges),
        "skipped": dict(report.skipped),
        "passed": report.whole.passed and asdict(report.whole.passed),
        "metrics": _metrics_of(report.whole),
        "labelled": [asdict(one) for one in report.labelled],
        "groups": groups,
        "look_at_first": first,
        "worst": [row.sample.sample_id for row in report.worst[:_WORST]],
        "cost": asdict(report.total),
    }


def _metrics_of(group: ResultGroup) -> dict[str, Any]:
    return {
        name: {
            **asdict(one),
            **one.counts,
            "word": None if one.normalised is None else band_of(name, one.normalised.mean),
        }
        for name, one in group.metrics.items()
    }


def comparison_as_json(comparison: Comparison, failures: Sequence[str] = ()) -> dict[str, Any]:
    """Return a comparison as plain types."""
    return {
        "pairs": comparison.pairs,
        "only_base": comparison.only_base,
        "only_new": comparison.only_new,
        "screening": comparison.is_screening,
        "unscored": list(comparison.unscored),
        "failures": list(failures),
        "changes": [{**asdict(one), "trend": one.trend.value} for one in comparison.changes],
        "regressions": [
            {
                "metric": one.metric,
                "question": one.new.sample.question,
                "base": one.base.sample.sample_id,
                "new": one.new.sample.sample_id,
                "drop": one.drop,
            }
            for one in comparison.regressions
        ],
    }
