"""What the pipeline shows of itself in metrics, by the name of the instrument."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from rag_eval_hooks import semconv
from rag_eval_hooks.books.stats import Stats
from rag_eval_hooks.decision import RATE_LIMIT, RATIO, SAMPLED_OUT

__all__ = ["Level", "Readings"]

Level: TypeAlias = Callable[[], int | None]
"""A number as of now, or None where there is none."""
_Rows: TypeAlias = Iterable[tuple[int, Mapping[str, str]]]


class Readings:
    """Reads the books, and levels such as the length of the queue.

    Args:
        stats: The books at this moment.
        levels: By instrument.
    """

    def __init__(self, stats: Callable[[], Stats], levels: Mapping[str, Level]) -> None:
        self._stats = stats
        self._levels = levels

    def of(self, instrument: str) -> _Rows:
        """What an instrument shows now."""
        if instrument in _COUNTS:
            return _COUNTS[instrument](self._stats())
        number = self._levels[instrument]() if instrument in self._levels else None
        return () if number is None else ((number, {}),)


def _samples(stats: Stats) -> _Rows:
    yield stats.scored, {semconv.EVAL_OUTCOME: "scored"}
    yield stats.sampled_out, {semconv.EVAL_OUTCOME: "sampled_out"}
    for outcome, reasons in (("dropped", stats.dropped), ("failed", stats.failed)):
        for reason, count in reasons.items():
            yield count, {semconv.EVAL_OUTCOME: outcome, semconv.EVAL_REASON: reason}


def _decisions(stats: Stats) -> _Rows:
    for told, count in stats.decisions.items():
        decision, reason = _decision(told)
        yield count, {semconv.EVAL_DECISION: decision, semconv.EVAL_REASON: reason}


def _decision(told: str) -> tuple[str, str]:
    """What was decided, and why, by the books' word for both."""
    if told == RATE_LIMIT:
        return "refused", RATE_LIMIT
    if told == SAMPLED_OUT:
        return SAMPLED_OUT, RATIO
    kind, _, rule = told.partition(":")
    return (SAMPLED_OUT, rule) if kind == SAMPLED_OUT else ("sampled", told)


def _reasons(of: Callable[[Stats], Mapping[str, int]], key: str) -> Callable[[Stats], _Rows]:
    return lambda stats: [(count, {key: reason}) for reason, count in of(stats).items()]


_COUNTS: Final[Mapping[str, Callable[[Stats], _Rows]]] = {
    semconv.METRIC_SAMPLES: _samples,
    semconv.METRIC_DECISIONS: _decisions,
    semconv.METRIC_REFUSED: _reasons(lambda stats: stats.refused, semconv.EVAL_REASON),
    semconv.METRIC_FEEDBACK: _reasons(lambda stats: stats.feedback, semconv.EVAL_OUTCOME),
    semconv.METRIC_INCIDENTS: _reasons(lambda stats: stats.incidents, semconv.EVAL_INCIDENT),
}
