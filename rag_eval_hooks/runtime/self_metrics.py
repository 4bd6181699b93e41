"""OpenTelemetry metrics about the pipeline itself, read at collection."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from rag_eval_hooks import semconv
from rag_eval_hooks.books import Stats
from rag_eval_hooks.config import limits
from rag_eval_hooks.decision import RATE_LIMIT, RATIO, SAMPLED_OUT
from rag_eval_hooks.telemetry.attribute_limits import ValueLimit

if TYPE_CHECKING:
    from rag_eval_hooks.runtime.pipeline import Pipeline

__all__ = ["observe"]

_Readings: TypeAlias = Iterable[tuple[int | None, Mapping[str, str]]]
_Read: TypeAlias = Callable[["Pipeline"], _Readings]

_COUNTERS: Final = (
    (semconv.METRIC_SAMPLES, "{sample}", "Number of samples, by outcome and reason."),
    (
        semconv.METRIC_DECISIONS,
        "{decision}",
        "Number of sampling decisions, by decision and reason.",
    ),
    (
        semconv.METRIC_REFUSED,
        "{metric}",
        "Number of metrics that a limit left without a score, by reason.",
    ),
    (semconv.METRIC_FEEDBACK, "{feedback}", "Number of calls of `feedback`, by outcome."),
    (
        semconv.METRIC_INCIDENTS,
        "{incident}",
        "Number of failures that rag-eval-hooks caught, such as exceptions, by kind.",
    ),
)
_LEVELS: Final = (
    (semconv.METRIC_QUEUE_SIZE, "{sample}", "Number of samples that wait for evaluation."),
    (
        semconv.METRIC_QUEUE_CAPACITY,
        "{sample}",
        "Maximum number of samples that can wait for evaluation.",
    ),
    (
        semconv.METRIC_QUEUE_TEXT,
        "{char}",
        "Number of characters that all waiting samples contain together.",
    ),
    (semconv.METRIC_HELD_SIZE, "{span}", "Number of RAG spans that wait for their scores."),
    (
        semconv.METRIC_HELD_CAPACITY,
        "{span}",
        "Maximum number of RAG spans that can wait for their scores at once.",
    ),
    (
        semconv.METRIC_OPEN_SIZE,
        "{interaction}",
        "Number of open requests. An open request has started and has not finished.",
    ),
    (
        semconv.METRIC_OPEN_CAPACITY,
        "{interaction}",
        "Maximum number of requests that can be open at once.",
    ),
    (
        semconv.METRIC_OPEN_TEXT,
        "{char}",
        "Number of characters that all open requests contain together.",
    ),
)
_GAUGES: Final = (
    (semconv.METRIC_SPOOL_SIZE, "{sample}", "Number of samples in the spool, from all processes."),
    (semconv.METRIC_SPOOL_USAGE, "By", "Size of the spool."),
    (semconv.METRIC_SPOOL_LIMIT, "By", "Maximum size of the spool."),
)
"""Instruments that report the same value in all processes with the same spool. Do not sum them."""


def observe(meter: Meter, pipeline: Pipeline) -> None:
    """Create the instruments. They report nothing once the pipeline is garbage-collected."""
    reference, limit = weakref.ref(pipeline), ValueLimit()

    def callback(read: _Read) -> Callable[[CallbackOptions], Sequence[Observation]]:
        def observations(_: CallbackOptions) -> Sequence[Observation]:
            if (alive := reference()) is None:
                return ()
            try:
                alive.ready()
                readings = [(value, limit.apply(given)) for value, given in read(alive)]
            except Exception as error:  # noqa: BLE001 - the sink's edge: the user's reader
                alive.parts.incidents.report("telemetry metrics", error)
                return ()
            return [Observation(value, given) for value, given in readings if value is not None]

        return observations

    for create, rows in (
        (meter.create_observable_counter, _COUNTERS),
        (meter.create_observable_up_down_counter, _LEVELS),
        (meter.create_observable_gauge, _GAUGES),
    ):
        for name, unit, description in rows:
            create(name, [callback(_READ[name])], unit, description)


def _one(read: Callable[[Pipeline], int | None]) -> _Read:
    return lambda pipeline: [(read(pipeline), {})]


def _by(column: str, key: str) -> _Read:
    def readings(pipeline: Pipeline) -> _Readings:
        return [(n, {key: reason}) for reason, n in getattr(pipeline.snapshot(), column).items()]

    return readings


def _of_spool(read: Callable[[Pipeline], int | None]) -> _Read:
    return _one(lambda pipeline: read(pipeline) if pipeline.outbox.is_durable else None)


def _samples(pipeline: Pipeline) -> _Readings:
    stats: Stats = pipeline.snapshot()
    for outcome in ("scored", "sampled_out", "shipped"):
        if outcome != "shipped" or stats.shipped:
            yield getattr(stats, outcome), {semconv.EVAL_OUTCOME: outcome}
    for outcome, reasons in (("dropped", stats.dropped), ("failed", stats.failed)):
        for reason, count in reasons.items():
            yield count, {semconv.EVAL_OUTCOME: outcome, semconv.EVAL_REASON: reason}


def _decisions(pipeline: Pipeline) -> _Readings:
    for entry, count in pipeline.snapshot().decisions.items():
        # The statistics combine a decision and its reason in one text.
        kind, _, rule = entry.partition(":")
        decision, reason = "sampled", entry
        if entry == RATE_LIMIT:
            decision = "refused"
        elif kind == SAMPLED_OUT:
            decision, reason = SAMPLED_OUT, rule or RATIO
        yield count, {semconv.EVAL_DECISION: decision, semconv.EVAL_REASON: reason}


_READ: Final[Mapping[str, _Read]] = {
    semconv.METRIC_SAMPLES: _samples,
    semconv.METRIC_DECISIONS: _decisions,
    semconv.METRIC_REFUSED: _by("refused", semconv.EVAL_REASON),
    semconv.METRIC_FEEDBACK: _by("feedback", semconv.EVAL_OUTCOME),
    semconv.METRIC_INCIDENTS: _by("incidents", semconv.EVAL_INCIDENT),
    semconv.METRIC_QUEUE_SIZE: _one(lambda one: len(one.worker)),
    semconv.METRIC_QUEUE_CAPACITY: _one(lambda one: one.parts.config.queue_size),
    semconv.METRIC_QUEUE_TEXT: _one(lambda one: one.worker.waiting_chars),
    semconv.METRIC_HELD_SIZE: _one(lambda one: len(one.holder)),
    semconv.METRIC_HELD_CAPACITY: _one(lambda _: limits.HELD_SPANS),
    semconv.METRIC_OPEN_SIZE: _one(lambda one: one.recorder.opened()[0]),
    semconv.METRIC_OPEN_CAPACITY: _one(lambda _: limits.OPEN_INTERACTIONS),
    semconv.METRIC_OPEN_TEXT: _one(lambda one: one.recorder.opened()[1]),
    semconv.METRIC_SPOOL_SIZE: _of_spool(lambda one: one.outbox.measured()[0]),
    semconv.METRIC_SPOOL_USAGE: _of_spool(lambda one: one.outbox.measured()[1]),
    semconv.METRIC_SPOOL_LIMIT: _of_spool(lambda one: one.outbox.max_bytes),
}
