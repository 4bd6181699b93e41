"""OpenTelemetry metrics: scores, durations, outcomes, the queue, and what judging takes."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from rag_eval_hooks import semconv
from rag_eval_hooks._version import __version__
from rag_eval_hooks.sinks.evaluation import Evaluation
from rag_eval_hooks.usage import Usage

__all__ = ["Books", "MetricRecorder"]

_SCORE_BOUNDS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
_DURATION_BOUNDS = [0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0]
_MOST_VALUES = 50
"""Different values that one attribute may have; further ones become `other`."""


class Books(Protocol):
    """Whose numbers are read whenever metrics are collected."""

    def outcomes(self) -> Mapping[tuple[str, str | None], int]:
        """Samples by outcome and reason, since the process began."""
        ...

    def waiting(self) -> int:
        """Samples in the queue."""
        ...


class MetricRecorder:
    """Records one evaluation after another, with the RAG span's context for exemplars.

    Args:
        provider: A meter provider, or None for the global one, also when it is set later.
        judge: The judge's name.
    """

    def __init__(self, provider: MeterProvider | None, *, judge: str) -> None:
        self._judge = {semconv.EVAL_JUDGE: judge}
        self._few = _Few()
        self._meter = meter = metrics.get_meter(
            semconv.TRACER_NAME, __version__, provider, semconv.SCHEMA_URL
        )
        self._score = meter.create_histogram(
            semconv.METRIC_SCORE,
            "1",
            "Scores, normalised to 0 to 1, where 1 is best.",
            explicit_bucket_boundaries_advisory=_SCORE_BOUNDS,
        )
        self._duration = meter.create_histogram(
            semconv.METRIC_DURATION,
            "s",
            "Time that the evaluation of a sample took.",
            explicit_bucket_boundaries_advisory=_DURATION_BOUNDS,
        )
        self._calls = meter.create_counter(
            semconv.METRIC_JUDGE_CALLS, "{call}", "Calls to judge and embedder."
        )
        self._tokens = meter.create_counter(
            semconv.METRIC_JUDGE_TOKENS, "{token}", "Tokens that these calls took."
        )
        self._cost = meter.create_counter(
            semconv.METRIC_JUDGE_COST, "1", "Their cost in the currency of the price table."
        )

    def watch(self, books: Books) -> None:
        """Reports the outcomes and the queue from now on, as long as the books exist."""
        known = weakref.ref(books)

        def outcomes(_: CallbackOptions) -> Iterator[Observation]:
            if (alive := known()) is not None:
                for (outcome, reason), count in alive.outcomes().items():
                    because = {} if reason is None else {semconv.EVAL_REASON: reason}
                    yield Observation(count, {semconv.EVAL_OUTCOME: outcome, **because})

        def waiting(_: CallbackOptions) -> Iterable[Observation]:
            alive = known()
            return () if alive is None else (Observation(alive.waiting()),)

        self._meter.create_observable_counter(
            semconv.METRIC_SAMPLES, [outcomes], "{sample}", "Samples by outcome."
        )
        self._meter.create_observable_up_down_counter(
            semconv.METRIC_QUEUE_SIZE, [waiting], "{sample}", "Samples that wait to be evaluated."
        )

    def record(self, evaluation: Evaluation) -> None:
        """One evaluation."""
        context = evaluation.context()
        workflow = self._workflow(evaluation.sample.workflow)
        for name, score in evaluation.scores.items():
            attributes = {
                semconv.GEN_AI_EVALUATION_NAME: name,
                semconv.EVAL_SUITE: name.partition(".")[0],
                **workflow,
            }
            if (label := evaluation.label(name)) is not None:
                attributes[semconv.GEN_AI_EVALUATION_LABEL] = self._few.of(name, label)
            if name in evaluation.verdicts:
                attributes[semconv.EVAL_PASS] = str(evaluation.verdicts[name]).lower()
            self._score.record(score.normalised, attributes, context)
        status = {semconv.EVAL_STATUS: evaluation.status.value, **workflow}
        self._duration.record(evaluation.seconds, status, context)
        used = (outcome.usage for outcome in evaluation.outcomes.values())
        self._record_usage(sum(used, start=Usage()), evaluation)

    def _record_usage(self, used: Usage, evaluation: Evaluation) -> None:
        context = evaluation.context()
        if used.calls:
            self._calls.add(used.calls, self._judge, context)
        for kind, count in (("input", used.input_tokens), ("output", used.output_tokens)):
            if count:
                attributes = {semconv.GEN_AI_TOKEN_TYPE: kind, **self._judge}
                self._tokens.add(count, attributes, context)
        if used.cost:
            self._cost.add(used.cost, self._judge, context)

    def _workflow(self, name: str | None) -> dict[str, str]:
        if name is None:
            return {}
        return {semconv.GEN_AI_WORKFLOW_NAME: self._few.of("workflow", name)}


class _Few:
    """Keeps attributes from having ever more values, each of which is a series of its own."""

    def __init__(self) -> None:
        self._known: dict[str, set[str]] = {}

    def of(self, attribute: str, value: str) -> str:
        known = self._known.setdefault(attribute, set())
        if value not in known and len(known) >= _MOST_VALUES:
            return "other"
        known.add(value)
        return value
