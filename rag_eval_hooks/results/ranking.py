"""Ranking of samples, the worst first, and selection."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from statistics import fmean
from typing import Final

from rag_eval_hooks.results.read import ResultRow
from rag_eval_hooks.results.summary import group_key

__all__ = ["FAITHFULNESS", "badness", "select", "time_of", "worst"]

FAITHFULNESS: Final = ("ragas.faithfulness", "graphrag.ragas_faithfulness")
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def worst(rows: Iterable[ResultRow], metric: str | None = None) -> list[ResultRow]:
    """Return the rows with a score, the worst first.

    Args:
        rows: The rows.
        metric: The metric to rank by; by default faithfulness, then the mean of all scores. A
            refusal claims nothing, so that it has no faithfulness and ranks after all numbers.
    """
    ranked = [(key, row) for row in rows if (key := badness(row, metric)) is not None]
    return [row for _, row in sorted(ranked, key=lambda pair: pair[0])]


def badness(row: ResultRow, metric: str | None = None) -> tuple[float, float] | None:
    """Return the key by which a row is ranked, the lowest for the worst; None without a score."""
    values = [score.normalised for name in row.outcomes if (score := row.score(name))]
    if metric is not None:
        score = row.score(metric)
        return None if score is None else (score.normalised, fmean(values))
    if not values:
        return None
    faithful = next((s.normalised for name in FAITHFULNESS if (s := row.score(name))), 2.0)
    return faithful, fmean(values)


def select(
    rows: Iterable[ResultRow],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    where: Iterable[tuple[str, str]] = (),
    metrics: Iterable[str] = (),
) -> Iterator[ResultRow]:
    """Yield the rows that meet all conditions.

    Args:
        rows: The rows.
        since: Time of the earliest request; rows of unknown time are left out.
        until: Time before which requests are wanted.
        where: Keys, as of `summarise`, with the value that they must have; `tag` is met by any tag
            of the sample.
        metrics: Metrics that are left, by id or suite; rows without one are left out. All by
            default.
    """
    conditions, chosen = list(where), set(metrics)
    for row in rows:
        if not _is_within(row.when, since, until):
            continue
        if not all(_has(row, key, value) for key, value in conditions):
            continue
        if chosen:
            outcomes = {
                name: outcome
                for name, outcome in row.outcomes.items()
                if not chosen.isdisjoint((name, name.partition(".")[0]))
            }
            row = replace(row, outcomes=outcomes)
        if row.outcomes or not chosen:
            yield row


def _is_within(when: datetime | None, since: datetime | None, until: datetime | None) -> bool:
    if when is None:
        return since is None and until is None
    return (since is None or when >= since) and (until is None or when < until)


def _has(row: ResultRow, key: str, value: str) -> bool:
    return value in row.sample.tags if key == "tag" else group_key(row, key) == value


def time_of(text: str, now: datetime | None = None) -> datetime:
    """Return the time that `24h`, `7d`, `today` or an ISO date and time names, in UTC.

    Raises:
        ValueError: It names no time.
    """
    now = now or datetime.now(UTC)
    if text == "today":
        return now.replace(hour=0, minute=0, second=0, microsecond=0)
    if match := _SPAN.fullmatch(text.strip()):
        return now - timedelta(**{_UNITS[match[2]]: float(match[1])})
    named = datetime.fromisoformat(text)
    return named.replace(tzinfo=named.tzinfo or UTC)
