"""Parts that a pipeline is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from opentelemetry import _logs, metrics, trace
from opentelemetry._logs import LoggerProvider
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from rag_eval_hooks import semconv
from rag_eval_hooks._version import __version__
from rag_eval_hooks.config import limits
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.delivery import AnySink
from rag_eval_hooks.delivery.outbox_file import check_spool
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.evaluation.finding_sources import Source, Sources
from rag_eval_hooks.evaluation.golden_references import References, references_of
from rag_eval_hooks.evaluation.scorer import Scorer
from rag_eval_hooks.findings import EMBEDDED
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges import Judge
from rag_eval_hooks.judges.base import Embedder
from rag_eval_hooks.judges.calls.budget import Budget, budget_of
from rag_eval_hooks.metrics import Metric, chosen_by_default
from rag_eval_hooks.redaction import Redactor
from rag_eval_hooks.runtime.shipping import RemoteFleet
from rag_eval_hooks.sampling.selection import Selection
from rag_eval_hooks.score import AnnotatorKind
from rag_eval_hooks.telemetry.evaluation_metrics import MetricRecorder
from rag_eval_hooks.telemetry.evaluation_span import EvaluationSpans, FeedbackSpanSink
from rag_eval_hooks.telemetry.log_events import EventEmitter
from rag_eval_hooks.telemetry.score_attributes import ScoreAttributes
from rag_eval_hooks.telemetry.telemetry import Telemetry
from rag_eval_hooks.telemetry.thresholds import Thresholds

__all__ = ["Parts", "Providers", "parts_of", "telemetry_of"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Parts that a pipeline is made of, built once.

    Attributes:
        config: The settings.
        incidents: Counter of caught exceptions.
        redactor: Redacts samples.
        selection: Decides which metrics of a sample are evaluated.
        scorer: Evaluates a sample.
        references: Golden questions, or None.
        budget: Budget of judge calls, or None.
        telemetry: Publishes spans, events and metrics.
        sinks: Where evaluations go besides telemetry.
        tracer_provider: Provider of the RAG spans, or None for the global one.
        judges: Judge, embedder and token scorer, closed at shutdown.
        fleet: Workers that evaluate in place of this process, or None.
    """

    config: RagEvalConfig
    incidents: Incidents
    redactor: Redactor
    selection: Selection
    scorer: Scorer
    references: References | None
    budget: Budget | None
    telemetry: Telemetry
    sinks: Sequence[AnySink]
    tracer_provider: TracerProvider | None
    judges: Sequence[Source]
    fleet: RemoteFleet | None

    def forked(self) -> None:
        """Replace locks and counts that a child must not inherit."""
        self.incidents.forked()
        self.telemetry.forked()
        if self.budget is not None:
            self.budget.forked()

    async def close(self) -> None:
        """Close the budget, the judge and the models. In the evaluator's loop, at its end."""
        if self.budget is not None:
            self.budget.close()
        for judge in self.judges:
            try:
                await judge.aclose()
            except Exception as error:  # noqa: BLE001 - a judge can be the user's own code
                self.incidents.report(f"close {judge.name}", error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Providers:
    """Providers of OpenTelemetry; None stands for the global one, even if it is set later."""

    tracer: TracerProvider | None = None
    meter: MeterProvider | None = None
    logger: LoggerProvider | None = None

    def usable(self, incidents: Incidents) -> Providers:
        """Return the providers; a broken one is reported, and replaced by one that does nothing."""

        def tried(ask: Callable[..., object], own: T, silent: T) -> T:
            try:
                ask(semconv.TRACER_NAME, __version__, own, semconv.SCHEMA_URL)
            except Exception as error:  # noqa: BLE001 - the host's edge: providers are the user's
                incidents.report(f"{ask.__name__} of the provider", error)
                return silent
            return own

        return Providers(
            tracer=tried(trace.get_tracer, self.tracer, trace.NoOpTracerProvider()),
            meter=tried(metrics.get_meter, self.meter, metrics.NoOpMeterProvider()),
            logger=tried(_logs.get_logger, self.logger, _logs.NoOpLoggerProvider()),
        )


def telemetry_of(
    config: RagEvalConfig,
    providers: Providers,
    thresholds: Thresholds,
    judge: Judge,
    incidents: Incidents,
) -> Telemetry:
    """Return the publisher of spans, events and metrics."""
    # Judge calls need a span that is as long as they are.
    late_with_calls = config.trace_judge and config.evaluation_span == "late"
    return Telemetry(
        thresholds=thresholds,
        attributes=ScoreAttributes(thresholds, content=config.capture_content),
        spans=EvaluationSpans(
            providers.tracer,
            mode="trace" if late_with_calls else config.evaluation_span,
            content=config.capture_content,
            max_chars=limits.EXPLANATION_CHARS,
        ),
        events=EventEmitter(
            providers.logger,
            content=config.capture_event_content,
            max_chars=limits.EXPLANATION_CHARS,
        ),
        metrics=MetricRecorder(providers.meter, judge=judge.name, incidents=incidents),
        incidents=incidents,
    )


def parts_of(
    config: RagEvalConfig,
    *,
    chosen: Sequence[Metric] | None,
    available: Sequence[Metric],
    sources: Sources,
    providers: Providers,
    sinks: Sequence[AnySink],
    redactor: Redactor,
    fleet: RemoteFleet | None,
) -> Parts:
    """Return the parts of a pipeline; `chosen` is None for those of `ragas` that a sample can feed.

    Raises:
        ConfigError: A threshold is of no metric, or out of its scale; judge calls are to be seen
            below a span that is not written; there can be no spool at the path.
    """
    if config.trace_judge and config.evaluation_span == "off":
        wants = "an evaluation_span other than 'off', below which the calls are"
        raise ConfigError("trace_judge", True, wants)
    if config.spool is not None:
        # Resolved once: the application may change its working directory.
        config = config.model_copy(update={"spool": str(Path(config.spool).absolute())})
        check_spool(Path(config.spool or ""))
    measured = chosen_by_default(available) if chosen is None else chosen
    thresholds = Thresholds(config.thresholds, measured)
    incidents = Incidents()
    providers = providers.usable(incidents)
    return Parts(
        config=config,
        incidents=incidents,
        redactor=redactor,
        selection=Selection(config, measured, available, incidents),
        scorer=Scorer(measured, sources, config.sample_timeout, incidents, only_fed=chosen is None),
        references=references_of(config, redactor.holds if redactor.active else None),
        budget=budget_of(config, sources.judge, _paid_embedder(measured, sources), incidents),
        telemetry=telemetry_of(config, providers, thresholds, sources.judge, incidents),
        sinks=[*sinks, FeedbackSpanSink(providers.tracer, providers.logger)],
        tracer_provider=providers.tracer,
        judges=[part for part in (sources.judge, sources.embedder, sources.scorer) if part],
        fleet=fleet,
    )


def _paid_embedder(measured: Sequence[Metric], sources: Sources) -> Embedder | None:
    """Return the embedder if the judge or a chosen metric uses it."""
    is_used = sources.judge.annotator_kind is not AnnotatorKind.LLM or any(
        metric.findings & EMBEDDED for metric in measured
    )
    return sources.embedder if is_used else None
