"""OpenTelemetry metrics of the pipeline's own state, read when metrics are collected."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from rag_eval_hooks import semconv
from rag_eval_hooks.books import Stats
from rag_eval_hooks.decision import RATE_LIMIT, RATIO, SAMPLED_OUT
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.telemetry.attribute_limits import ValueLimit

__all__ = ["Gauge", "ReadState", "Reading", "observe", "readings"]

Gauge: TypeAlias = Callable[[], int | None]
"""Returns a current value, or None if there is none. Never blocks."""
Reading: TypeAlias = tuple[int, Mapping[str, str]]
"""A value and its attributes."""
ReadState: TypeAlias = Callable[[str], Iterable[Reading]]
"""Bound method that returns the current values of an instrument. Never blocks."""

_COUNTERS: Final = (
    (semconv.METRIC_SAMPLES, "{sample}", "Samples by outcome."),
    (semconv.METRIC_DECISIONS, "{decision}", "Decisions of sampler, rules and rate limit."),
    (semconv.METRIC_REFUSED, "{metric}", "Metrics of samples that a refusal left unscored."),
    (semconv.METRIC_FEEDBACK, "{feedback}", "Feedback by what became of it."),
    (semconv.METRIC_INCIDENTS, "{incident}", "Exceptions caught at an edge, by kind."),
)
_UP_DOWN_COUNTERS: Final = (
    (semconv.METRIC_QUEUE_SIZE, "{sample}", "Samples that wait to be evaluated."),
    (semconv.METRIC_QUEUE_CAPACITY, "{sample}", "Samples that may wait."),
    (semconv.METRIC_QUEUE_TEXT, "{char}", "Text of the samples that wait."),
    (semconv.METRIC_HELD_SIZE, "{span}", "RAG spans that wait for scores."),
    (semconv.METRIC_HELD_CAPACITY, "{span}", "RAG spans that may wait."),
    (semconv.METRIC_OPEN_SIZE, "{interaction}", "Interactions that have not ended."),
    (semconv.METRIC_OPEN_CAPACITY, "{interaction}", "Interactions that may be open."),
    (semconv.METRIC_OPEN_TEXT, "{char}", "Text that open interactions hold."),
)
_GAUGES: Final = (
    (semconv.METRIC_SPOOL_SIZE, "{sample}", "Samples in the spool, of all processes."),
    (semconv.METRIC_SPOOL_USAGE, "By", "Size of the spool."),
    (semconv.METRIC_SPOOL_LIMIT, "By", "Size that the spool may have."),
)
"""Instruments with equal values in all processes that share a spool: their sum has no meaning."""


def readings(
    instrument: str, stats: Callable[[], Stats], gauges: Mapping[str, Gauge]
) -> Iterable[Reading]:
    """Return the current values of an instrument, or none, from statistics or its gauge."""
    if instrument in _READ_STATS:
        return _READ_STATS[instrument](stats())
    value = gauges[instrument]() if instrument in gauges else None
    return () if value is None else ((value, {}),)


def observe(meter: Meter, read: ReadState, limit: ValueLimit, incidents: Incidents) -> None:
    """Create the instruments; they report nothing once the object of `read` is collected."""
    reference = weakref.WeakMethod(read)

    def callbacks(name: str) -> list[Callable[[CallbackOptions], Iterable[Observation]]]:
        def observations(_: CallbackOptions) -> Iterable[Observation]:
            alive = reference()
            try:
                readings = () if alive is None else alive(name)
                return [Observation(value, limit.apply(given)) for value, given in readings]
            except Exception as error:  # noqa: BLE001 - the sink's edge: the user's reader
                incidents.report("telemetry metrics", error)
                return ()

        return [observations]

    for name, unit, description in _COUNTERS:
        meter.create_observable_counter(name, callbacks(name), unit, description)
    for name, unit, description in _UP_DOWN_COUNTERS:
        meter.create_observable_up_down_counter(name, callbacks(name), unit, description)
    for name, unit, description in _GAUGES:
        meter.create_observable_gauge(name, callbacks(name), unit, description)


def _samples(stats: Stats) -> Iterable[Reading]:
    yield stats.scored, {semconv.EVAL_OUTCOME: "scored"}
    yield stats.sampled_out, {semconv.EVAL_OUTCOME: "sampled_out"}
    if stats.shipped:
        yield stats.shipped, {semconv.EVAL_OUTCOME: "shipped"}
    for outcome, reasons in (("dropped", stats.dropped), ("failed", stats.failed)):
        for reason, count in reasons.items():
            yield count, {semconv.EVAL_OUTCOME: outcome, semconv.EVAL_REASON: reason}


def _decisions(stats: Stats) -> Iterable[Reading]:
    for entry, count in stats.decisions.items():
        decision, reason = _decision_and_reason(entry)
        yield count, {semconv.EVAL_DECISION: decision, semconv.EVAL_REASON: reason}


def _decision_and_reason(entry: str) -> tuple[str, str]:
    """Split an entry of the statistics, which names both in one text."""
    if entry == RATE_LIMIT:
        return "refused", RATE_LIMIT
    if entry == SAMPLED_OUT:
        return SAMPLED_OUT, RATIO
    kind, _, rule = entry.partition(":")
    return (SAMPLED_OUT, rule) if kind == SAMPLED_OUT else ("sampled", entry)


def _by_reason(counts: Mapping[str, int], key: str) -> Iterable[Reading]:
    return [(count, {key: reason}) for reason, count in counts.items()]


_READ_STATS: Final[Mapping[str, Callable[[Stats], Iterable[Reading]]]] = {
    semconv.METRIC_SAMPLES: _samples,
    semconv.METRIC_DECISIONS: _decisions,
    semconv.METRIC_REFUSED: lambda stats: _by_reason(stats.refused, semconv.EVAL_REASON),
    semconv.METRIC_FEEDBACK: lambda stats: _by_reason(stats.feedback, semconv.EVAL_OUTCOME),
    semconv.METRIC_INCIDENTS: lambda stats: _by_reason(stats.incidents, semconv.EVAL_INCIDENT),
}
