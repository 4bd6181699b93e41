"""Selects results by conditions, and ranks the worst first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from statistics import fmean
from typing import Final

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results.summary import checked_rows, group_key
from rag_eval_hooks.score import Outcome, Score

FAITHFULNESS: Final = ("ragas.faithfulness", "graphrag.ragas_faithfulness")
_UNDEFINED: Final = 0.999
"""Rank of a sample with undefined faithfulness, just before perfect samples."""
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def worst(rows: Iterable[Evaluation], metric: str | None = None) -> list[Evaluation]:
    """Return the results that have a score or a risk, worst first.

    Args:
        rows: The results.
        metric: The metric to rank by. By default, faithfulness decides, then its risk, then the
            mean of all scores. A sample with undecided faithfulness ranks by its risk. A sample
            with undefined faithfulness ranks just before samples with a perfect score.
    """
    rows = checked_rows(rows)
    known = {name: None for row in rows for name in row.outcomes}
    if metric is not None and known and metric not in known:
        raise ConfigError.unknown("metric", metric, known)
    ranked = [(key, row) for row in rows if (key := badness(row, metric)) is not None]
    return [row for _, row in sorted(ranked, key=lambda pair: pair[0])]


def badness(row: Evaluation, metric: str | None = None) -> tuple[float, float, float] | None:
    outcome = faithfulness_of(row) if metric is None else row.outcomes.get(metric)
    deciding = list(row.outcomes.values()) if metric is None else [outcome]
    if not any(isinstance(one, Score) or (one and one.risk is not None) for one in deciding):
        return None
    mean = fmean(score.normalized for score in row.scores.values()) if row.scores else 1.0
    if outcome is None:
        return 2.0, 1.0, mean
    safety = 1.0 - (outcome.risk or 0.0)
    level = outcome.normalized if isinstance(outcome, Score) else min(safety, _UNDEFINED)
    return level, safety, mean


def faithfulness_of(row: Evaluation) -> Outcome | None:
    return next((row.outcomes[name] for name in FAITHFULNESS if name in row.outcomes), None)


def select(
    rows: Iterable[Evaluation],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    where: Iterable[tuple[str, str]] = (),
    metrics: Iterable[str] = (),
) -> Iterator[Evaluation]:
    """Yield the results that meet all conditions.

    Args:
        rows: The results.
        since: Time of the earliest accepted request. `since` and `until` exclude results of unknown
            time.
        until: Accept only requests before this time.
        where: Required value for each key, as in `summarise`. `tag` matches any tag of the sample.
        metrics: Metric ids or suites to keep. Results without any such metric are excluded. None
            keeps all metrics.
    """
    conditions, chosen = list(where), set(metrics)
    for row in rows:
        when = row.time
        if (since and (when is None or when < since)) or (
            until and (when is None or when >= until)
        ):
            continue
        if not all(_has(row, key, value) for key, value in conditions):
            continue
        if chosen:
            kept = {k: v for k, v in row.outcomes.items() if chosen & {k, k.partition(".")[0]}}
            row = replace(row, outcomes=kept)
        if row.outcomes or not chosen:
            yield row


def _has(row: Evaluation, key: str, value: str) -> bool:
    return value in row.sample.tags if key == "tag" else group_key(row, key) == value


def time_of(text: str, now: datetime | None = None) -> datetime:
    """Parse `24h`, `7d`, `today`, or an ISO date and time, in UTC.

    Raises:
        ValueError: The text is not a time.
    """
    now = now or datetime.now(UTC)
    if text == "today":
        return now.replace(hour=0, minute=0, second=0, microsecond=0)
    if match := _SPAN.fullmatch(text.strip()):
        try:
            return now - timedelta(**{_UNITS[match[2]]: float(match[1])})
        except OverflowError as error:
            raise ValueError(f"{text} reaches back before year 1") from error
    named = datetime.fromisoformat(text)
    return named.replace(tzinfo=named.tzinfo or UTC)
