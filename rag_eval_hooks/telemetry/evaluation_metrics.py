"""OpenTelemetry metrics of evaluations: scores and durations."""

from __future__ import annotations

from opentelemetry import metrics
from opentelemetry.metrics import MeterProvider

from rag_eval_hooks import semconv
from rag_eval_hooks._version import __version__
from rag_eval_hooks.ending import Evaluation
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.telemetry.judge_metrics import JudgeMetrics
from rag_eval_hooks.telemetry.limits import ValueLimit
from rag_eval_hooks.telemetry.rag_span import context_of
from rag_eval_hooks.telemetry.self_metrics import StateSource, observe
from rag_eval_hooks.usage import Usage

__all__ = ["MetricRecorder"]

_SCORE_BOUNDS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
_DURATION_BOUNDS = [0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0]


class MetricRecorder:
    """Records evaluations, in the context of their RAG spans for exemplars.

    Args:
        provider: Meter provider; None: the global one, even if it is set later.
        judge: Name of the judge.
        incidents: Counts exceptions of the provider.

    Attributes:
        judge: Metrics of calls to judge and embedder.
    """

    def __init__(self, provider: MeterProvider | None, *, judge: str, incidents: Incidents) -> None:
        self._incidents = incidents
        self._limit = ValueLimit()
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
        self.judge = JudgeMetrics(meter, judge=judge, limit=self._limit, incidents=incidents)

    def watch(self, source: StateSource) -> None:
        """Report the pipeline's state for as long as its source exists."""
        observe(self._meter, source, self._limit, self._incidents)

    def record(self, evaluation: Evaluation) -> None:
        """Record the scores and the duration of an evaluation."""
        context = context_of(evaluation.sample)
        workflow = self._workflow(evaluation.sample.workflow)
        for name, score in evaluation.scores.items():
            attributes = {
                semconv.GEN_AI_EVALUATION_NAME: name,
                semconv.EVAL_SUITE: name.partition(".")[0],
                **workflow,
            }
            if (label := evaluation.label(name)) is not None:
                attributes[semconv.GEN_AI_EVALUATION_LABEL] = self._limit.of(name, label)
            if name in evaluation.verdicts:
                attributes[semconv.EVAL_PASS] = str(evaluation.verdicts[name]).lower()
            self._score.record(score.normalised, attributes, context)
        status = {semconv.EVAL_STATUS: evaluation.status.value, **workflow}
        self._duration.record(evaluation.seconds, status, context)

    def used(self, sample: Sample, outcomes: Outcomes) -> None:
        """Record the usage of an evaluation, inline evaluations included."""
        context = context_of(sample)
        parts = (outcome.usage for outcome in outcomes.values())
        self.judge.used(sum(parts, start=Usage()), context)

    def _workflow(self, name: str | None) -> dict[str, str]:
        if name is None:
            return {}
        return {semconv.GEN_AI_WORKFLOW_NAME: self._limit.of("workflow", name)}
