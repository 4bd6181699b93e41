"""Selection and ranking of samples, the worst first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from statistics import fmean
from typing import Final

from rag_eval_hooks.results.read import ResultRow
from rag_eval_hooks.results.summary import group_key
from rag_eval_hooks.score import Score

__all__ = ["FAITHFULNESS", "badness", "identity_of", "select", "time_of", "worst"]

FAITHFULNESS: Final = ("ragas.faithfulness", "graphrag.ragas_faithfulness")
_UNDEFINED: Final = 0.999
"""Rank of a sample whose faithfulness is undefined."""
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def worst(rows: Iterable[ResultRow], metric: str | None = None) -> list[ResultRow]:
    """Return the rows with a score, the worst first.

    Args:
        rows: The rows.
        metric: The metric to rank by; by default faithfulness, then the mean of all scores. Where
            faithfulness is undefined, a sample ranks just before those that are perfect.
    """
    ranked = [(key, row) for row in rows if (key := badness(row, metric)) is not None]
    return [row for _, row in sorted(ranked, key=lambda pair: pair[0])]


def badness(row: ResultRow, metric: str | None = None) -> tuple[float, ...] | None:
    """Return the key by which a row is ranked, the lowest for the worst; None without a score.

    Samples of equal faithfulness rank by the least probability of a claim.
    """
    values = [score.normalised for name in row.outcomes if (score := row.score(name))]
    if not values:
        return None
    if metric is not None:
        score = row.score(metric)
        return None if score is None else (score.normalised, _least_probability(score))
    name = next((name for name in FAITHFULNESS if name in row.outcomes), "")
    if (score := row.score(name)) is not None:
        return score.normalised, _least_probability(score), fmean(values)
    return _UNDEFINED if name else 2.0, 1.0, fmean(values)


def _least_probability(score: Score) -> float:
    claims = score.explanation.get("claims")
    known = claims if isinstance(claims, list) else []
    found = [one.get("probability") for one in known if isinstance(one, Mapping)]
    return min((each for each in found if isinstance(each, int | float)), default=1.0)


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


def identity_of(row: ResultRow) -> str:
    """Return the name by which samples of two runs pair: their `question_id`, else the question."""
    identity = row.sample.question_id
    return f"id {identity}" if identity is not None else f"q {row.sample.question.strip()}"


def time_of(text: str, now: datetime | None = None) -> datetime:
    """Return the time that `24h`, `7d`, `today` or an ISO date and time names, in UTC.

    Raises:
        ValueError: It names no time.
    """
    now = now or datetime.now(UTC)
    if text == "today":
        return now.replace(hour=0, minute=0, second=0, microsecond=0)
    if match := _SPAN.fullmatch(text.strip()):
        try:
            return now - timedelta(**{_UNITS[match[2]]: float(match[1])})
        except OverflowError as error:
            raise ValueError(f"{text} is before the first year") from error
    named = datetime.fromisoformat(text)
    return named.replace(tzinfo=named.tzinfo or UTC)
