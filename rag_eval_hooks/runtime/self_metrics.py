"""OpenTelemetry metrics about the pipeline itself."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from rag_eval_hooks import semconv
from rag_eval_hooks.telemetry.evaluation_metrics import ValueLimit
from rag_eval_hooks.text.folding import toml_of

# Any, because mypy does not infer the attributes of `Pipeline` here.
_Read: TypeAlias = Callable[[Any], Iterable[tuple[int, Mapping[str, str]]]]
_INSTRUMENTS: Final = toml_of("instruments.toml", __package__)


def observe(meter: Meter, pipeline: Any) -> None:
    reference, limit = weakref.ref(pipeline), ValueLimit()

    def observations(read: _Read, _: CallbackOptions) -> Sequence[Observation]:
        if (alive := reference()) is None:
            return ()
        try:
            alive.ready()
            return [Observation(value, limit.apply(about)) for value, about in read(alive)]
        except Exception as error:  # noqa: BLE001 - an exception would break the user's reader
            alive.parts.incidents.report("telemetry metrics", error)
            return ()

    for kind, create in (
        ("counters", meter.create_observable_counter),
        ("levels", meter.create_observable_up_down_counter),
    ):
        for name, row in _INSTRUMENTS[kind].items():
            create(name, [partial(observations, _READ[name])], **row)


def _samples(pipeline: Any) -> Iterable[tuple[int, Mapping[str, str]]]:
    stats = pipeline.snapshot()
    for outcome in ("scored", "sampled_out", "shipped"):
        if outcome != "shipped" or stats.shipped:
            yield getattr(stats, outcome), {semconv.EVAL_OUTCOME: outcome}
    for outcome, reasons in (("dropped", stats.dropped), ("failed", stats.failed)):
        for reason, count in reasons.items():
            yield count, {semconv.EVAL_OUTCOME: outcome, semconv.EVAL_REASON: reason}


def _decisions(pipeline: Any) -> Iterable[tuple[int, Mapping[str, str]]]:
    for reason, count in pipeline.snapshot().decisions.items():
        yield count, {semconv.EVAL_REASON: reason}


_READ: Final[Mapping[str, _Read]] = {
    "rag.eval.samples": _samples,
    "rag.eval.decisions": _decisions,
    "rag.eval.queue.size": lambda one: [(len(one.worker), {})],
    "rag.eval.queue.capacity": lambda one: [(one.parts.config.queue_size, {})],
    "rag.eval.held.size": lambda one: [(len(one.holder), {})],
}
