"""Builds the report that every output format renders."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

from rag_eval_hooks.calls import Usage
from rag_eval_hooks.datasets.data_rows import ROW_KEY
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results.compare import Comparison
from rag_eval_hooks.results.diagnose import Diagnosis, diagnose, worst
from rag_eval_hooks.results.read import Results
from rag_eval_hooks.results.summary import (
    LabelledMean,
    Labels,
    MetricSummary,
    ResultGroup,
    check_key,
    checked_rows,
    group_key,
    labelled_means,
    summarise,
)

_MOST_GROUPS: Final = 12
_BUILT_IN_KEYS: Final = ("workflow", "reason", "version")
_HOURS: Final = (1, 6, 24, 24 * 7, 24 * 30)
_MOST_PERIODS: Final = 40
_WORST: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultReport:
    whole: ResultGroup
    groups: Mapping[str, Mapping[str | None, ResultGroup]]  # by grouping key
    periods: Sequence[ResultGroup]  # by equal time steps; empty if there is only one step
    diagnoses: Sequence[Diagnosis]  # the most frequent rule is first
    worst: Sequence[Evaluation]  # rows with a score or a risk; the worst row is first
    times: tuple[datetime, datetime] | None  # of the first and the last request
    judges: Mapping[str, int]  # samples by judge and versions
    skipped: Mapping[str, int]  # skipped lines, by reason
    labelled: Sequence[LabelledMean] = ()  # means that are estimated from labels of some samples

    @property
    def metrics(self) -> Sequence[MetricSummary]:
        return tuple(self.whole.metrics.values())

    @property
    def total(self) -> Usage:
        return sum((one.usage for one in self.metrics), start=Usage())


def make_report(
    rows: Iterable[Evaluation],
    *,
    by: Sequence[str] = (),
    cuts: Mapping[str, tuple[float, float]] | None = None,
    labels: Labels | None = None,
    skipped: Mapping[str, int] | None = None,
) -> ResultReport:
    """Build a report from results.

    Args:
        rows: The results.
        by: Keys that group the samples. By default, these are all keys with 2 to 12 values among
            metadata keys, workflow, sampling reason and version.
        cuts: Low and high bounds by metric id, as in `diagnose`.
        labels: Labels of a random part of the samples, from `read_labels`.
        skipped: Number of skipped lines by reason. The default is `rows.skipped`.
    """
    known = checked_rows(rows)
    for key in by:
        check_key(known, key)
    times = [row.time for row in known if row.time is not None]
    return ResultReport(
        whole=summarise(known)[None],
        groups={key: summarise(known, key) for key in by or _keys(known)},
        periods=_periods(known, times),
        diagnoses=diagnose(known, cuts=cuts),
        worst=worst(known),
        times=(min(times), max(times)) if times else None,
        judges=_judges(known),
        labelled=labelled_means(known, labels or {}),
        skipped=dict(skipped or (rows.skipped if isinstance(rows, Results) else {})),
    )


def _keys(rows: Sequence[Evaluation]) -> Iterator[str]:
    items = (item for row in rows for item in row.sample.metadata.items())
    own = Counter(key for key, value in items if isinstance(value, str | int | bool))
    shared = [key for key, number in own.items() if number > 1]
    for key in dict.fromkeys([*shared, *_BUILT_IN_KEYS]):
        groups = {group_key(row, key) for row in rows}
        # Rows without a metadata value do not count as a group.
        least = 2 if key in _BUILT_IN_KEYS else 2 + (None in groups)
        if key != ROW_KEY and least <= len(groups) <= _MOST_GROUPS + 1:
            yield key


def _periods(rows: Iterable[Evaluation], times: Sequence[datetime]) -> list[ResultGroup]:
    hours = (max(times) - min(times)).total_seconds() / 3600 if times else 0.0
    step = 3600 * next((each for each in _HOURS if hours / each < _MOST_PERIODS), _HOURS[-1])
    timed = (row for row in rows if row.time is not None)
    periods = summarise(timed, lambda row: row.time and int(row.time.timestamp() // step))
    ordered = sorted(periods, key=lambda key: int(key or 0))
    return [periods[key] for key in ordered] if len(ordered) > 1 else []


def _judges(rows: Iterable[Evaluation]) -> dict[str, int]:
    names: Counter[str] = Counter()
    for score in (score for row in rows for score in row.scores.values()):
        version = f" ({score.version})" if score.version else ""
        names[f"{score.annotator or 'formulas'}{version}"] += 1
    return dict(names.most_common())


def as_json(report: ResultReport) -> dict[str, Any]:
    """Return a report as plain types, with sample ids instead of samples."""
    first, last = report.times or (None, None)
    plain = {
        "from": first,
        "to": last,
        "samples": report.whole.samples,
        "metrics": report.whole.metrics,
        "passed": report.whole.passed,
        "judges": report.judges,
        "skipped": report.skipped,
        "labelled": report.labelled,
        "groups": report.groups,
        "look_at_first": [
            {**_fields(one.rule), "share": one.share, "samples": one.rows}
            for one in report.diagnoses
        ],
        "worst": report.worst[:_WORST],
        "cost": report.total,
    }
    return _as_plain(plain)


def comparison_as_json(comparison: Comparison, failures: Sequence[str] = ()) -> dict[str, Any]:
    regressions = [
        {**_fields(one), "question": one.new.sample.question} for one in comparison.regressions
    ]
    return _as_plain({**_fields(comparison), "failures": failures, "regressions": regressions})


def _as_plain(value: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(value, default=_plain))  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    if isinstance(value, Evaluation):
        return value.sample.sample_id
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, ResultGroup):
        return {"samples": value.samples, "metrics": value.metrics}
    if isinstance(value, MetricSummary):
        return {**vars(value), **value.counts, "word": value.word}
    return _fields(value)


def _fields(value: Any) -> dict[str, Any]:
    return {one.name: getattr(value, one.name) for one in fields(value)}
