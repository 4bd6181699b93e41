"""Collects the numbers of a report, and converts the numbers to plain Python types."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, Final

from rag_eval_hooks.calls import Usage
from rag_eval_hooks.datasets.data_rows import ROW_KEY
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results.compare import Comparison
from rag_eval_hooks.results.diagnose import diagnose, worst
from rag_eval_hooks.results.read import Results
from rag_eval_hooks.results.summary import (
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


class ResultReport:
    """The numbers of a report. Every output format shows the same numbers.

    Args:
        rows: The results.
        by: Keys that group the samples. The default keys are metadata keys, workflow, sampling
            reason and version, if they have 2 to 12 different values.
        cuts: Bounds of low and high scores by metric id, as in `diagnose`.
        labels: Labels of a random part of the samples, from `read_labels`.
        skipped: Number of skipped lines by reason. The default is `rows.skipped` if `read` returned
            `rows`.
    """

    def __init__(
        self,
        rows: Iterable[Evaluation],
        *,
        by: Sequence[str] = (),
        cuts: Mapping[str, tuple[float, float]] | None = None,
        labels: Labels | None = None,
        skipped: Mapping[str, int] | None = None,
    ) -> None:
        known = checked_rows(rows)
        for key in by:
            check_key(known, key)
        times = [row.time for row in known if row.time is not None]
        self.whole = summarise(known)[None]
        self.metrics = tuple(self.whole.metrics.values())
        self.total = sum((one.usage for one in self.metrics), start=Usage())
        self.groups = {key: summarise(known, key) for key in by or _keys(known)}
        self.periods = _periods(known, times)  # by equal time steps; empty for only one step
        self.diagnoses = diagnose(known, cuts=cuts)
        self.worst = worst(known)
        self.times = (min(times), max(times)) if times else None
        self.judges = _judges(known)  # samples by judge and versions
        self.labelled = labelled_means(known, labels or {})
        self.skipped = dict(skipped or (rows.skipped if isinstance(rows, Results) else {}))


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
    """Return a report as plain JSON types. The ids of samples replace the samples."""
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
