"""Parts of a pipeline, made from settings and arguments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from opentelemetry._logs import LoggerProvider
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from rag_eval_hooks.config import limits
from rag_eval_hooks.config.keywords import SettingKeywords
from rag_eval_hooks.config.settings import RagEvalConfig, ungrouped
from rag_eval_hooks.delivery import AnySink
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.evaluation.collect_findings import Sources
from rag_eval_hooks.evaluation.golden_references import References, references_of
from rag_eval_hooks.evaluation.scorer import Scorer
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges import (
    Embedder,
    Judge,
    TokenScorer,
    choose_embedder,
    choose_judge,
    choose_token_scorer,
)
from rag_eval_hooks.judges.calls.budget import Budget, budget_of
from rag_eval_hooks.judges.calls.metered_judge import allowed, metered
from rag_eval_hooks.metrics import Metric, choose
from rag_eval_hooks.metrics.check_file import Check, parse_checks
from rag_eval_hooks.metrics.options import (
    GRAPHRAG_WEIGHTS,
    WHITEPAPER_WEIGHTS,
    DontKnow,
    MetricOptions,
)
from rag_eval_hooks.model_providers import EMBEDDERS, JUDGES, TOKEN_SCORERS
from rag_eval_hooks.redaction import Redactor
from rag_eval_hooks.sampling.selection import Selection
from rag_eval_hooks.spool.folder import check_spool
from rag_eval_hooks.telemetry.evaluation_metrics import MetricRecorder
from rag_eval_hooks.telemetry.evaluation_span import EvaluationSpans, FeedbackSpanSink
from rag_eval_hooks.telemetry.log_events import EventEmitter
from rag_eval_hooks.telemetry.telemetry import Telemetry, Thresholds

__all__ = [
    "Parts",
    "Providers",
    "chosen_metrics",
    "finding_sources",
    "metric_options",
    "parts_of",
    "settings",
    "telemetry_sinks",
]


class _Closable(Protocol):
    """Judge, embedder or token scorer."""

    @property
    def name(self) -> str:
        """Name in errors."""
        ...

    async def aclose(self) -> None:
        """Release what it holds."""
        ...


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
    judges: Sequence[_Closable]

    def forked(self) -> None:
        """Replace locks and counts that a child must not inherit."""
        self.incidents.forked()
        self.telemetry.forked()
        for part in (self.references, self.budget):
            if part is not None:
                part.forked()

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


def telemetry_sinks(
    config: RagEvalConfig,
    providers: Providers,
    thresholds: Thresholds,
    judge: Judge,
    incidents: Incidents,
) -> Telemetry:
    """Return the publisher of spans, events and metrics."""
    return Telemetry(
        thresholds=thresholds,
        spans=EvaluationSpans(
            providers.tracer,
            mode=config.carrier,
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
        span_events=config.span_events,
    )


def settings(
    config: RagEvalConfig | None,
    given: SettingKeywords,
    *,
    judge: object,
    sample_rate: object,
    embedder: object,
    token_scorer: object,
) -> RagEvalConfig:
    """Return the settings in force: arguments over `config` over those of the process.

    Raises:
        ConfigError: A setting is unknown or a value is not accepted.
    """
    explicit: dict[str, Any] = {}
    if config is not None and not isinstance(config, RagEvalConfig):
        raise ConfigError("config", type(config).__name__, "a RagEvalConfig")
    if config is not None:
        explicit |= {name: getattr(config, name) for name in config.model_fields_set}
    explicit |= ungrouped(given)
    for table, protocol, value in (
        (JUDGES, Judge, judge),
        (EMBEDDERS, Embedder, embedder),
        (TOKEN_SCORERS, TokenScorer, token_scorer),
    ):
        if isinstance(value, str):
            explicit[table.setting] = value
        elif value is not None and (isinstance(value, type) or not isinstance(value, protocol)):
            # Not the object itself: a client, or its arguments, may show a key.
            wants = f"{table.wanted}, or an instance of {protocol.__name__}"
            raise ConfigError(table.setting, type(value).__name__, wants)
    if sample_rate is not None:
        explicit["sample_rate"] = sample_rate
    return RagEvalConfig.load(**explicit)


def chosen_metrics(
    metrics: str | Iterable[str | Metric] | None,
    config: RagEvalConfig,
    available: Sequence[Metric],
) -> tuple[Metric, ...] | None:
    """Return the metrics asked for, or None for all that a sample can feed."""
    if metrics is None:
        return choose(config.metrics, available) if config.metrics else None
    if not isinstance(metrics, Iterable):
        raise ConfigError("metrics", metrics, "names of suites or metrics, or Metric objects")
    return choose([metrics] if isinstance(metrics, str) else metrics, available)


def metric_options(config: RagEvalConfig) -> MetricOptions:
    """Return the options of the suites."""
    return MetricOptions(
        graphrag_weights={**GRAPHRAG_WEIGHTS, **config.weights_of("graphrag")},
        graphrag_rank_aware=config.graphrag_rank_aware,
        whitepaper_weights={**WHITEPAPER_WEIGHTS, **config.weights_of("whitepaper")},
        dont_know=DontKnow(config.dont_know),
        question_checks=_question_checks(config.question_checks),
    )


def _question_checks(path: str | None) -> tuple[Check, ...]:
    if path is None:
        return ()
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        wants = f"a readable TOML file ({type(error).__name__})"
        raise ConfigError("question_checks", path, wants) from None
    return parse_checks(text, path)


def finding_sources(
    config: RagEvalConfig,
    judge: str | Judge | None,
    embedder: str | Embedder | None,
    token_scorer: str | TokenScorer | None,
) -> Sources:
    """Return judge, embedder and token scorer: those given, else those of the settings."""
    embeds = embedder if isinstance(embedder, Embedder) else None
    if embeds is None and not (isinstance(judge, Judge) and config.embedder == "auto"):
        # `auto` follows the judge of the settings; with a judge of the user's it means none.
        embeds = choose_embedder(config)
    made = judge if isinstance(judge, Judge) else choose_judge(config, embeds)
    scorer = token_scorer if isinstance(token_scorer, TokenScorer) else choose_token_scorer(config)
    return Sources(
        judge=metered(made),
        embedder=allowed(embeds),
        scorer=scorer,
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
) -> Parts:
    """Return the parts of a pipeline; `chosen` is None for all metrics that a sample can feed.

    Raises:
        ConfigError: A threshold is of no metric, or out of its scale; judge calls are to be seen
            below a span that is not written; there can be no spool at the path.
    """
    if config.trace_judge and config.carrier == "off":
        wants = "carrier 'trace' or 'child', below which the calls are"
        raise ConfigError("telemetry_details", "judge_calls", wants)
    if config.spool is not None:
        check_spool(Path(config.spool))
    metrics = available if chosen is None else chosen
    thresholds = Thresholds(config.thresholds, metrics)
    incidents = Incidents()
    return Parts(
        config=config,
        incidents=incidents,
        redactor=redactor,
        selection=Selection(config, metrics, available, incidents),
        scorer=Scorer(metrics, sources, config.sample_timeout, incidents, only_fed=chosen is None),
        references=references_of(
            config, sources.embedder, incidents, redactor.holds if redactor.active else None
        ),
        budget=budget_of(config, sources.judge, sources.embedder, incidents),
        telemetry=telemetry_sinks(config, providers, thresholds, sources.judge, incidents),
        sinks=[*sinks, FeedbackSpanSink(providers.tracer, providers.logger)],
        tracer_provider=providers.tracer,
        judges=[part for part in (sources.judge, sources.embedder, sources.scorer) if part],
    )
