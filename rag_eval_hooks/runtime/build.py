"""Functions that build a pipeline's components from the arguments of `RagEval`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, cast

from opentelemetry import _logs, trace
from opentelemetry import metrics as metrics_api
from opentelemetry._logs import LoggerProvider
from opentelemetry.metrics import MeterProvider, NoOpMeterProvider
from opentelemetry.trace import TracerProvider

from rag_eval_hooks import judges, semconv
from rag_eval_hooks._version import __version__
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.delivery.codec import from_text
from rag_eval_hooks.delivery.dispatch import AnySink, SinkSpec, sink_list
from rag_eval_hooks.delivery.outbox_file import check_spool
from rag_eval_hooks.errors import ConfigError, kind_of
from rag_eval_hooks.evaluation.collect import Sources
from rag_eval_hooks.evaluation.golden_references import References, read_golden
from rag_eval_hooks.evaluation.own_metrics import metric_of
from rag_eval_hooks.evaluation.scorer import Scorer
from rag_eval_hooks.findings import EMBEDDED
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges import Embedder, Judge, TokenScorer
from rag_eval_hooks.judges.budget import budget_of
from rag_eval_hooks.judges.cascade import Cascade
from rag_eval_hooks.judges.llm import CallableJudge, Function
from rag_eval_hooks.metrics import METRICS_WANTED, Metric, build, choose, chosen_by_default
from rag_eval_hooks.metrics.question_checks import Check, parse_checks
from rag_eval_hooks.providers import EMBEDDERS, JUDGES
from rag_eval_hooks.redaction import RedactSpec, choose_redactor
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.sampling.selection import Selection
from rag_eval_hooks.telemetry.score_attributes import Thresholds, check_limit
from rag_eval_hooks.telemetry.telemetry import Telemetry

MetricSpec: TypeAlias = str | Metric | Callable[[Sample], Any]
"""A metric, its name, or a function that returns an outcome or a number from 0 to 1."""
RemoteFleet: TypeAlias = Callable[[Incidents, str], Any]
T = TypeVar("T")
_PROTOCOLS: Final[Mapping[str, tuple[type, str]]] = {
    "judge": (Judge, f"{JUDGES.wanted}, or "),
    "embedder": (Embedder, f"{EMBEDDERS.wanted}, or "),
    "token_scorer": (TokenScorer, ""),
}


@dataclass(frozen=True, slots=True)
class Models:
    judge: str | Judge | Function | None = None
    embedder: str | Embedder | None = None
    token_scorer: TokenScorer | None = None

    def names(self) -> dict[str, str]:
        names = {}
        given = (self._judge, self.embedder, self.token_scorer)
        for (setting, (protocol, known)), value in zip(_PROTOCOLS.items(), given, strict=True):
            value = getattr(value, "second_name", None) or value
            if isinstance(value, str) and known:
                names[setting] = value
            elif value is not None and (isinstance(value, type) or not isinstance(value, protocol)):
                # Name only the type, because a client's repr may contain a key.
                parts = [name for name in dir(protocol) if name[0] != "_"]
                kind = f"{protocol.__name__} (an object with {', '.join(parts)})"
                raise ConfigError(setting, kind_of(value), f"{known}an instance of {kind}")
        return names

    def sources(self, config: RagEvalConfig, incidents: Incidents, *, embeds: bool) -> Sources:
        judge, embedder = self._judge, self.embedder
        is_own = isinstance(judge, Judge) and getattr(judge, "second_name", None) is None
        if not isinstance(embedder, Embedder):
            # With a user's judge object, `auto` means no embedder.
            lacks = (is_own or not embeds) and config.embedder == "auto"
            embedder = None if lacks else judges.choose_embedder(config)
        if isinstance(judge, Cascade):
            judge = judge.resolved(lambda name: judges.choose_judge(config.for_judge(name)))
            judge.incidents = incidents
        elif not isinstance(judge, Judge):
            judge = judges.choose_judge(config)
        return Sources(judge=judge, embedder=embedder, scorer=self.token_scorer)

    @property
    def _judge(self) -> object:
        return CallableJudge(self.judge) if inspect.isroutine(self.judge) else self.judge


class Parts:
    """The components that a pipeline keeps after a fork."""

    def __init__(
        self,
        config: RagEvalConfig,
        models: Models,
        metrics: MetricSpec | Iterable[MetricSpec] | None,
        sinks: Iterable[SinkSpec] | SinkSpec | None,
        run_on: object,
        redact: RedactSpec | None,
        providers: tuple[TracerProvider | None, MeterProvider | None, LoggerProvider | None],
    ) -> None:
        if config.trace_judge and config.evaluation_span == "off":
            wants = "false because evaluation_span is 'off'. Choose another evaluation_span"
            raise ConfigError("trace_judge", True, wants)
        if config.spool is not None:
            # The application may change its working directory later.
            config = config.model_copy(update={"spool": str(Path(config.spool).absolute())})
            check_spool(Path(config.spool or ""))
        self.config, self.incidents = config, (incidents := Incidents())
        self.fleet = _fleet(config, run_on)
        self.redactor = choose_redactor(config, redact)
        available = build(question_checks=_question_checks(config.question_checks))
        chosen = _chosen_metrics(metrics, config, available)
        measured = chosen_by_default(available) if chosen is None else chosen
        # With Celery, only the workers use the configured sinks.
        self.sinks = sink_list(() if self.fleet and sinks is None else sinks, config)
        _check_alerts(self.sinks, measured)
        embeds = any(metric.findings & EMBEDDED for metric in measured)
        sources = models.sources(config, incidents, embeds=embeds)
        self.judges = [one for one in (sources.judge, sources.embedder, sources.scorer) if one]
        self.selection = Selection(config, measured, available, incidents)
        timeout, only_fed = config.sample_timeout, chosen is None
        self.scorer = Scorer(measured, sources, timeout, incidents, only_fed=only_fed)
        golden = config.references
        self.references = None if golden is None else References(read_golden(golden))
        embedder = sources.embedder if embeds else None
        self.budget = budget_of(config, sources.judge, embedder, incidents)
        tracer, meter, logger = providers
        silent = trace.NoOpTracerProvider()
        self.tracer_provider = _usable(trace.get_tracer, tracer, silent, incidents)
        self.telemetry = Telemetry(
            config,
            Thresholds(config.thresholds, measured),
            incidents,
            judge=sources.judge.name,
            tracer=self.tracer_provider,
            meter=_usable(metrics_api.get_meter, meter, NoOpMeterProvider(), incidents),
            logger=_usable(_logs.get_logger, logger, _logs.NoOpLoggerProvider(), incidents),
            has_sinks=bool(self.sinks or sinks is not None or self.fleet or config.spool),
        )

    def revive(self, text: str) -> Evaluation:
        return self.telemetry.judged(from_text(text, self.redactor))

    async def close(self) -> None:
        if self.budget is not None:
            self.budget.close()
        for judge in self.judges:
            try:
                await judge.aclose()
            except Exception as error:  # noqa: BLE001 - a judge can be the user's own code
                self.incidents.report(f"close {judge.name}", error)


def _check_alerts(sinks: Sequence[AnySink], metrics: Iterable[Metric]) -> None:
    scales = {metric.id: metric.scale for metric in metrics}
    for sink in sinks:
        # Reject an alert whose condition no score can meet.
        for setting, name, limit in getattr(sink, "__dict__", {}).get("metric_limits", ()):
            check_limit(setting, name, limit, scales)


def _usable(ask: Callable[..., object], own: T, silent: T, incidents: Incidents) -> T:
    if own is not None and (isinstance(own, type) or not hasattr(type(own), ask.__name__)):
        name = f"{ask.__name__.removeprefix('get_')}_provider"
        raise ConfigError(name, kind_of(own), f"an object with {ask.__name__}(), or None")
    try:
        ask(semconv.TRACER_NAME, __version__, own, semconv.SCHEMA_URL)
    except Exception as error:  # noqa: BLE001 - the host's edge: providers are the user's
        incidents.report(f"{ask.__name__}() of the OpenTelemetry provider", error)
        return silent
    return own


def _chosen_metrics(
    metrics: MetricSpec | Iterable[MetricSpec] | None,
    config: RagEvalConfig,
    available: Sequence[Metric],
) -> tuple[Metric, ...] | None:
    if metrics is None:
        return choose(config.metrics, available) if config.metrics else None
    asked = [metrics] if isinstance(metrics, str | Metric) or callable(metrics) else metrics
    if not isinstance(asked, Iterable) or isinstance(asked, RagEvalConfig):
        fix = ". Write RagEval(config=...)" if isinstance(asked, RagEvalConfig) else ""
        raise ConfigError("metrics", kind_of(asked), METRICS_WANTED + fix)
    # `choose` rejects objects that are neither names nor metrics.
    specs = (
        metric_of(one) if callable(one) and not isinstance(one, type) else cast("str | Metric", one)
        for one in asked
    )
    return choose(specs, available)


def _question_checks(path: str | None) -> tuple[Check, ...]:
    if path is None:
        return ()
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        wants = f"a readable TOML file. Reading the file raised {type(error).__name__}"
        raise ConfigError("question_checks", path, wants) from None
    return parse_checks(text, path)


def _fleet(config: RagEvalConfig, run_on: object) -> RemoteFleet | None:
    if config.run_on != "celery":
        return None
    app: Any = None if isinstance(run_on, str) else run_on
    if app is not None and not hasattr(app, "send_task"):
        wants = "'thread', 'celery' or a Celery application"
        raise ConfigError("run_on", type(app).__name__, wants)
    # Import late, because the integration imports the pipeline.
    celery = import_module("rag_eval_hooks_celery")
    return partial(celery.Publisher, celery.fleet_of(config, app))


def settings_of(
    config: RagEvalConfig | None, models: Models, run_on: object, given: dict[str, Any]
) -> RagEvalConfig:
    explicit: dict[str, Any] = {}
    if isinstance(config, RagEvalConfig):
        explicit |= {name: getattr(config, name) for name in config.model_fields_set}
    elif config is not None:
        wants = "a RagEvalConfig. To read a file, set RAG_EVAL_CONFIG_FILE"
        raise ConfigError("config", type(config).__name__, wants)
    explicit |= given | models.names()
    if run_on is not None:
        # An object that is not a name is a Celery application.
        explicit["run_on"] = run_on if isinstance(run_on, str) else "celery"
    return RagEvalConfig(**explicit)
