"""OpenTelemetry metrics about the pipeline itself."""

from __future__ import annotations

import tomllib
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from typing import Any, Final, TypeAlias

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from rag_eval_hooks import semconv
from rag_eval_hooks.config import limits
from rag_eval_hooks.decision import RATE_LIMIT, RATIO, SAMPLED_OUT
from rag_eval_hooks.telemetry.attribute_limits import ValueLimit

_Readings: TypeAlias = Iterable[tuple[int, Mapping[str, str]]]
# Any, because mypy does not infer the attributes of `Pipeline` here.
_Read: TypeAlias = Callable[[Any], int | _Readings | None]
_INSTRUMENTS: Final[Mapping[str, Mapping[str, Any]]] = tomllib.loads(
    files(__package__).joinpath("instruments.toml").read_text("utf-8")
)


def observe(meter: Meter, pipeline: Any) -> None:
    """Create the instruments, which report until the pipeline is garbage-collected."""
    reference, limit = weakref.ref(pipeline), ValueLimit()

    def observations(read: _Read, _: CallbackOptions) -> Sequence[Observation]:
        if (alive := reference()) is None:
            return ()
        try:
            alive.ready()
            found = read(alive)
            if found is None:
                return ()
            readings = [(found, {})] if isinstance(found, int) else found
            return [Observation(value, limit.apply(given)) for value, given in readings]
        except Exception as error:  # noqa: BLE001 - an exception would break the user's reader
            alive.parts.incidents.report("telemetry metrics", error)
            return ()

    for kind, create in (
        ("counters", meter.create_observable_counter),
        ("levels", meter.create_observable_up_down_counter),
        ("gauges", meter.create_observable_gauge),
    ):
        for name, row in _INSTRUMENTS[kind].items():
            create(name, [partial(observations, _READ[name])], **row)


def _by(column: str, key: str) -> _Read:
    def readings(pipeline: Any) -> _Readings:
        return [(n, {key: reason}) for reason, n in getattr(pipeline.snapshot(), column).items()]

    return readings


def _samples(pipeline: Any) -> _Readings:
    stats = pipeline.snapshot()
    for outcome in ("scored", "sampled_out", "shipped"):
        if outcome != "shipped" or stats.shipped:
            yield getattr(stats, outcome), {semconv.EVAL_OUTCOME: outcome}
    for outcome, reasons in (("dropped", stats.dropped), ("failed", stats.failed)):
        for reason, count in reasons.items():
            yield count, {semconv.EVAL_OUTCOME: outcome, semconv.EVAL_REASON: reason}


def _decisions(pipeline: Any) -> _Readings:
    for entry, count in pipeline.snapshot().decisions.items():
        # In the statistics, a colon separates decision and reason.
        kind, _, rule = entry.partition(":")
        decision, reason = "sampled", entry
        if entry == RATE_LIMIT:
            decision = "refused"
        elif kind == SAMPLED_OUT:
            decision, reason = SAMPLED_OUT, rule or RATIO
        yield count, {semconv.EVAL_DECISION: decision, semconv.EVAL_REASON: reason}


_READ: Final[Mapping[str, _Read]] = {
    "rag.eval.samples": _samples,
    "rag.eval.decisions": _decisions,
    "rag.eval.refused": _by("refused", semconv.EVAL_REASON),
    "rag.eval.feedback": _by("feedback", semconv.EVAL_OUTCOME),
    "rag.eval.incidents": _by("incidents", semconv.EVAL_INCIDENT),
    "rag.eval.queue.size": lambda one: len(one.worker),
    "rag.eval.queue.capacity": lambda one: one.parts.config.queue_size,
    "rag.eval.queue.text": lambda one: one.worker.waiting_chars,
    "rag.eval.held.size": lambda one: len(one.holder),
    "rag.eval.held.capacity": lambda _: limits.HELD_SPANS,
    "rag.eval.interactions.size": lambda one: one.recorder.opened()[0],
    "rag.eval.interactions.capacity": lambda _: limits.OPEN_INTERACTIONS,
    "rag.eval.interactions.text": lambda one: one.recorder.opened()[1],
    "rag.eval.spool.size": lambda one: one.outbox.measured()[0],
    "rag.eval.spool.usage": lambda one: one.outbox.measured()[1],
    "rag.eval.spool.limit": lambda one: one.outbox.max_bytes if one.outbox.is_durable else None,
}
