"""OpenTelemetry metrics of evaluations, of calls to judge and embedder, and of the pipeline."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from opentelemetry import metrics
from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from rag_eval_hooks import semconv
from rag_eval_hooks._version import __version__
from rag_eval_hooks.calls import UNUSED, Call, Caller
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.model_calls import BreakerState, Gate
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes, Score
from rag_eval_hooks.telemetry.signals import context_of
from rag_eval_hooks.text.folding import toml_of

# Any, because mypy does not infer the attributes of `Pipeline` here.
_Read: TypeAlias = Callable[[Any], Iterable[tuple[int, Mapping[str, str]]]]
_MAX_VALUES: Final = 50
_INSTRUMENTS: Final = toml_of("instruments.toml", __package__)


class ValueLimit:
    def __init__(self) -> None:
        self._seen: dict[str, set[str]] = {}

    def of(self, attribute: str, value: str) -> str:
        seen = self._seen.setdefault(attribute, set())
        if value not in seen and len(seen) >= _MAX_VALUES:
            return "other"
        seen.add(value)
        return value

    def apply(self, attributes: Mapping[str, str]) -> dict[str, str]:
        return {key: self.of(key, value) for key, value in attributes.items()}


class MetricRecorder:
    def __init__(self, provider: MeterProvider | None, *, judge: str, incidents: Incidents) -> None:
        self._judge = {semconv.EVAL_JUDGE: judge}
        self._incidents = incidents
        self._limit = ValueLimit()
        # Updates replace the whole tuple, so that threads can read the gates without a lock.
        self._gates: tuple[tuple[Caller, weakref.ref[Gate]], ...] = ()
        self._meter = meter = metrics.get_meter(
            semconv.TRACER_NAME, __version__, provider, semconv.SCHEMA_URL
        )
        self._histograms = {
            name: meter.create_histogram(name, **row)
            for name, row in _INSTRUMENTS["histograms"].items()
        }
        self._counters = {
            name: meter.create_counter(name, **row)
            for name, row in _INSTRUMENTS["counters"].items()
        }
        for name, row in _INSTRUMENTS["levels"].items():
            meter.create_observable_up_down_counter(name, [self._breakers], **row)

    def watch(self, pipeline: Any) -> None:
        counters = self._meter.create_observable_counter
        levels = self._meter.create_observable_up_down_counter
        reference = weakref.ref(pipeline)
        for section, create in (("pipeline_counters", counters), ("pipeline_levels", levels)):
            for name, row in _INSTRUMENTS[section].items():
                create(name, [partial(self._observe, reference, _READ[name])], **row)

    def _observe(
        self, reference: Callable[[], Any], read: _Read, _: CallbackOptions
    ) -> Sequence[Observation]:
        if (pipeline := reference()) is None:
            return ()
        try:
            pipeline.ready()
            return [Observation(n, self._limit.apply(about)) for n, about in read(pipeline)]
        except Exception as error:  # noqa: BLE001 - an exception would break the user's reader
            self._incidents.report("telemetry metrics", error)
            return ()

    def forked(self) -> None:
        self._gates = ()

    def record(self, evaluation: Evaluation) -> None:
        context = context_of(evaluation.sample)
        workflow: dict[str, str] = {}
        if (name := evaluation.sample.workflow) is not None:
            workflow[semconv.GEN_AI_WORKFLOW_NAME] = self._limit.of("workflow", name)
        for name, score in evaluation.scores.items():
            attributes = {
                semconv.GEN_AI_EVALUATION_NAME: name,
                semconv.EVAL_SUITE: name.partition(".")[0],
                **workflow,
            }
            self._add_weighted(score, dict(attributes), context)
            if (label := evaluation.label(name)) is not None:
                attributes[semconv.GEN_AI_EVALUATION_LABEL] = self._limit.of(name, label)
            if score.screening:
                attributes[semconv.EVAL_SCREENING] = "true"
            if name in evaluation.verdicts:
                attributes[semconv.EVAL_PASS] = str(evaluation.verdicts[name]).lower()
            self._histograms["rag.eval.score"].record(score.normalized, attributes, context)
        status = {semconv.EVAL_STATUS: evaluation.status.value, **workflow}
        self._histograms["rag.eval.duration"].record(evaluation.seconds, status, context)

    def _add_weighted(self, score: Score, attributes: dict[str, str], context: Context) -> None:
        if not score.probability:
            return
        weight, value = 1.0 / score.probability, score.normalized
        self._counters["rag.eval.score.weight"].add(weight, attributes, context)
        self._counters["rag.eval.score.weighted"].add(weight * value, attributes, context)
        for power in range(3):
            about = {**attributes, semconv.EVAL_POWER: str(power)}
            self._counters["rag.eval.score.square"].add(weight**2 * value**power, about, context)

    def used(self, sample: Sample, outcomes: Outcomes) -> None:
        used = [outcome.usage for outcome in outcomes.values() if outcome.usage != UNUSED]
        usage = sum(used, start=UNUSED)
        if not (usage.input_tokens or usage.output_tokens or usage.cost):
            return
        context = context_of(sample)
        for kind, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            if count:
                attributes = {semconv.GEN_AI_TOKEN_TYPE: kind, **self._judge}
                self._counters["rag.eval.judge.tokens"].add(count, attributes, context)
        if usage.cost:
            self._counters["rag.eval.judge.cost"].add(usage.cost, self._judge, context)

    def called(self, call: Call) -> None:
        attributes = {**self._about(call.caller), semconv.EVAL_JUDGE_OUTCOME: call.outcome.value}
        try:
            # Several samples may share the call, so the call has no RAG span.
            self._counters["rag.eval.judge.calls"].add(1, attributes, Context())
            durations = self._histograms["rag.eval.judge.duration"]
            durations.record(call.seconds, attributes, Context())
        except Exception as error:  # noqa: BLE001 - a user's provider may raise anything
            self._incidents.report("telemetry metrics", error)

    def passes(self, caller: Caller, gate: Gate) -> None:
        # The metric of circuit breakers reports each gate's breaker.
        if not any(known() is gate for _, known in self._gates):
            alive = tuple(entry for entry in self._gates if entry[1]() is not None)
            self._gates = (*alive, (caller, weakref.ref(gate)))

    def _about(self, caller: Caller) -> dict[str, str]:
        return {
            semconv.EVAL_JUDGE: self._limit.of("judge", caller.name),
            semconv.GEN_AI_OPERATION_NAME: caller.operation.value,
        }

    def _breakers(self, _: CallbackOptions) -> Iterable[Observation]:
        gates = [(caller, gate) for caller, known in self._gates if (gate := known()) is not None]
        # A caller has one gate per event loop.
        counts = Counter((caller, gate.breaker.state) for caller, gate in gates)
        # Report every state, even with the value 0, because a metric reader keeps the last value.
        return [
            Observation(counts[caller, state], {**self._about(caller), semconv.EVAL_BREAKER: state})
            for caller in {caller for caller, _ in counts}
            for state in BreakerState
        ]


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
