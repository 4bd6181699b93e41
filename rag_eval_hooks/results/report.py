"""Builds the report that every output format renders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any, Final

from rag_eval_hooks.calls import Usage
from rag_eval_hooks.datasets.data_rows import ROW_KEY
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results.compare import Comparison
from rag_eval_hooks.results.diagnose import Cuts, Diagnosis, diagnose, worst
from rag_eval_hooks.results.read import Results
from rag_eval_hooks.results.summary import (
    LabelledMean,
    Labels,
    MetricSummary,
    ResultGroup,
    check_key,
    checked_rows,
    labelled_means,
    summarise,
)

_MOST_GROUPS: Final = 12
_BUILT_IN_KEYS: Final = ("workflow", "reason", "version")
_STEPS: Final = tuple(timedelta(hours=hours) for hours in (1, 6, 24, 24 * 7, 24 * 30))
_MOST_PERIODS: Final = 40
_WORST: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultReport:
    title: str
    whole: ResultGroup
    groups: Mapping[str, Mapping[str | None, ResultGroup]]  # by grouping key
    periods: Sequence[ResultGroup]  # by equal time steps; empty if there is only one step
    diagnoses: Sequence[Diagnosis]  # the most frequent rule is first
    worst: Sequence[Evaluation]  # rows with a score or a risk; the worst row is first
    judges: Mapping[str, int]  # samples by judge and versions
    skipped: Mapping[str, int]  # skipped lines, by reason
    labelled: Sequence[LabelledMean] = ()  # means that are estimated from labels of some samples

    @property
    def metrics(self) -> Sequence[MetricSummary]:
        return tuple(self.whole.metrics.values())

    @property
    def times(self) -> tuple[datetime, datetime] | None:
        known = [row.time for row in self.whole.rows if row.time is not None]
        return (min(known), max(known)) if known else None

    @property
    def is_screening(self) -> bool:
        return any(one.is_screening for one in self.metrics)

    @property
    def total(self) -> Usage:
        return sum((one.usage for one in self.metrics), start=Usage())


def make_report(
    rows: Iterable[Evaluation],
    *,
    by: Sequence[str] = (),
    title: str = "RAG evaluation",
    cuts: Mapping[str, Cuts] | None = None,
    labels: Labels | None = None,
    skipped: Mapping[str, int] | None = None,
) -> ResultReport:
    """Build a report from results.

    Args:
        rows: The results.
        by: Keys that group the samples. The default is every metadata key with 2 to 12 values, the
            workflow, the sampling reason, and the version.
        title: Title of the report.
        cuts: Low and high bounds by metric id.
        labels: Labels of a random part of the samples, from `read_labels`.
        skipped: Number of skipped lines by reason. The default is `rows.skipped`.
    """
    known = checked_rows(rows)
    for key in by:
        check_key(known, key)
    whole = summarise(known).get(None) or ResultGroup(key=None, rows=(), metrics={})
    groups = {key: summarise(known, key) for key in by or _keys(known)}
    if not by:
        groups = {k: each for k, each in groups.items() if 2 <= len(each) <= _MOST_GROUPS + 1}
    return ResultReport(
        title=title,
        whole=whole,
        groups=groups,
        periods=_periods(known),
        diagnoses=diagnose(known, cuts=cuts),
        worst=worst(known),
        judges=_judges(known),
        labelled=labelled_means(known, labels or {}),
        skipped=dict(skipped or (rows.skipped if isinstance(rows, Results) else {})),
    )


def _keys(rows: Iterable[Evaluation]) -> Iterable[str]:
    values: dict[str, set[object]] = {}
    for row in rows:
        for key, value in row.sample.metadata.items():
            if isinstance(value, str | int | bool) and key != ROW_KEY:
                values.setdefault(key, set()).add(value)
    own = [key for key, seen in values.items() if 2 <= len(seen) <= _MOST_GROUPS]
    return dict.fromkeys([*own, *_BUILT_IN_KEYS])


def _periods(rows: Iterable[Evaluation]) -> list[ResultGroup]:
    timed = sorted(((row.time, row) for row in rows if row.time is not None), key=itemgetter(0))
    if not timed:
        return []
    first, last = timed[0][0], timed[-1][0]
    step = next((s for s in _STEPS if (last - first) / s < _MOST_PERIODS), _STEPS[-1])
    begin = first.replace(minute=0, second=0, microsecond=0)
    if step >= timedelta(days=1):
        begin = begin.replace(hour=0)
    periods = summarise(
        [row for _, row in timed], lambda row: row.time and (row.time - begin) // step
    )
    return list(periods.values()) if len(periods) > 1 else []


def _judges(rows: Iterable[Evaluation]) -> dict[str, int]:
    names: Counter[str] = Counter()
    for score in (score for row in rows for score in row.scores.values()):
        caution = "a screening judge: finds samples to review, but is too weak for decisions"
        about = ", ".join(filter(None, (score.version, caution if score.screening else "")))
        names[f"{score.annotator or 'formulas'}{f' ({about})' if about else ''}"] += 1
    return dict(names.most_common())


def as_json(report: ResultReport) -> dict[str, Any]:
    """Return a report as plain types, with sample ids instead of samples."""
    first, last = report.times or (None, None)
    plain: dict[str, Any] = {"title": report.title, "from": first, "to": last}
    for name in ("samples", "metrics", "passed"):
        plain[name] = getattr(report.whole, name)
    for name in ("judges", "skipped", "labelled", "groups"):
        plain[name] = getattr(report, name)
    plain["look_at_first"] = [
        _fields(one.rule) | {"share": one.share, "samples": one.rows} for one in report.diagnoses
    ]
    plain |= {"worst": report.worst[:_WORST], "cost": report.total}
    return {name: _plain(value) for name, value in plain.items()}


def comparison_as_json(comparison: Comparison, failures: Sequence[str] = ()) -> dict[str, Any]:
    regressions = [
        {**_plain(one), "question": one.new.sample.question} for one in comparison.regressions
    ]
    own = {"screening": comparison.is_screening, "failures": list(failures)}
    return {**_plain(comparison), **own, "regressions": regressions}


def _plain(value: Any) -> Any:
    if isinstance(value, Evaluation):
        return value.sample.sample_id
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, ResultGroup):
        return {"samples": value.samples, "metrics": _plain(value.metrics)}
    if isinstance(value, MetricSummary):
        return {**_fields(value), **value.counts, "word": value.word}
    if is_dataclass(value):
        return _fields(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    return list(map(_plain, value)) if isinstance(value, list | tuple) else value


def _fields(value: Any) -> dict[str, Any]:
    return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
