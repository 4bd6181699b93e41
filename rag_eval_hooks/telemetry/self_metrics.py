"""OpenTelemetry metrics of the pipeline's own state, read when metrics are collected."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, TypeAlias

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from rag_eval_hooks import semconv
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.telemetry.cardinality import Few

__all__ = ["Books", "Reading", "observe"]

Reading: TypeAlias = tuple[int, Mapping[str, str]]
"""A number, and the attributes that it stands under."""

_COUNTERS: Final = (
    (semconv.METRIC_SAMPLES, "{sample}", "Samples by outcome."),
    (semconv.METRIC_DECISIONS, "{decision}", "Decisions of sampler, rules and rate limit."),
    (semconv.METRIC_REFUSED, "{metric}", "Metrics of samples that a refusal left unscored."),
    (semconv.METRIC_FEEDBACK, "{feedback}", "Feedback by what became of it."),
    (semconv.METRIC_INCIDENTS, "{incident}", "Exceptions caught at an edge, by kind."),
)
_LEVELS: Final = (
    (semconv.METRIC_QUEUE_SIZE, "{sample}", "Samples that wait to be evaluated."),
    (semconv.METRIC_QUEUE_CAPACITY, "{sample}", "Samples that may wait."),
    (semconv.METRIC_QUEUE_TEXT, "{char}", "Text of the samples that wait."),
    (semconv.METRIC_HELD_SIZE, "{span}", "RAG spans that wait for scores."),
    (semconv.METRIC_HELD_CAPACITY, "{span}", "RAG spans that may wait."),
    (semconv.METRIC_OPEN_SIZE, "{interaction}", "Interactions that have not ended."),
    (semconv.METRIC_OPEN_CAPACITY, "{interaction}", "Interactions that may be open."),
    (semconv.METRIC_OPEN_TEXT, "{char}", "Text that open interactions hold."),
)
_SHARED: Final = (
    (semconv.METRIC_SPOOL_SIZE, "{sample}", "Samples in the spool, of all processes."),
    (semconv.METRIC_SPOOL_USAGE, "By", "Size of the spool."),
    (semconv.METRIC_SPOOL_LIMIT, "By", "Size that the spool may have."),
)
"""The same in every process that shares the file, so that no sum of it has a meaning."""


class Books(Protocol):
    """Whose numbers are read whenever metrics are collected."""

    def read(self, instrument: str) -> Iterable[Reading]:
        """What an instrument shows now; nothing where there is nothing to show. Never waits."""
        ...


def observe(meter: Meter, books: Books, few: Few, incidents: Incidents) -> None:
    """Reports the state from now on, as long as the books exist.

    Args:
        meter: Makes the instruments.
        books: What they read.
        few: Bounds the values of attributes.
        incidents: Where exceptions are counted.
    """
    known = weakref.ref(books)

    def callback(name: str) -> list[Callable[[CallbackOptions], Iterable[Observation]]]:
        def read(_: CallbackOptions) -> Iterable[Observation]:
            alive = known()
            try:
                found = () if alive is None else alive.read(name)
                return [Observation(number, _bounded(told, few)) for number, told in found]
            except Exception as error:  # noqa: BLE001 - the sink's edge: the reader is the user's
                incidents.report("telemetry metrics", error)
                return ()

        return [read]

    for name, unit, words in _COUNTERS:
        meter.create_observable_counter(name, callback(name), unit, words)
    for name, unit, words in _LEVELS:
        meter.create_observable_up_down_counter(name, callback(name), unit, words)
    for name, unit, words in _SHARED:
        meter.create_observable_gauge(name, callback(name), unit, words)


def _bounded(attributes: Mapping[str, str], few: Few) -> dict[str, str]:
    return {key: few.of(key, value) for key, value in attributes.items()}
