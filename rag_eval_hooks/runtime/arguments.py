"""Parts that the arguments of `RagEval` ask for: settings, metrics, judge, models, sinks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias, cast

from rag_eval_hooks.config.keywords import SettingKeywords
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.delivery import SinkSpec, sink_list
from rag_eval_hooks.errors import ConfigError, kind_of
from rag_eval_hooks.evaluation.finding_sources import Sources
from rag_eval_hooks.evaluation.function_metric import metric_of
from rag_eval_hooks.judges import (
    Embedder,
    Judge,
    TokenScorer,
    choose_embedder,
    choose_judge,
    choose_token_scorer,
)
from rag_eval_hooks.judges.callable_judge import CallableJudge, Function
from rag_eval_hooks.judges.calls.metered_judge import allowed, metered
from rag_eval_hooks.judges.cascade import Cascade
from rag_eval_hooks.metrics import METRICS_WANTED, Metric, build, choose
from rag_eval_hooks.metrics.check_file import Check, parse_checks
from rag_eval_hooks.metrics.options import MetricOptions
from rag_eval_hooks.model_providers import EMBEDDERS, JUDGES, TOKEN_SCORERS
from rag_eval_hooks.redaction import RedactSpec, choose_redactor
from rag_eval_hooks.runtime.build import Parts, Providers, parts_of
from rag_eval_hooks.runtime.shipping import RemoteFleet
from rag_eval_hooks.sample import Sample

__all__ = ["MetricSpec", "chosen_metrics", "finding_sources", "metric_options", "parts_from"]

MetricSpec: TypeAlias = str | Metric | Callable[[Sample], Any]
"""A name, a metric, or a function of a sample that returns a number from 0 to 1 or an outcome."""


def parts_from(
    config: RagEvalConfig | None,
    given: SettingKeywords,
    *,
    metrics: MetricSpec | Iterable[MetricSpec] | None,
    judge: str | Judge | Function | None,
    sample_rate: float | None,
    sinks: Iterable[SinkSpec] | SinkSpec | None,
    embedder: str | Embedder | None,
    token_scorer: str | TokenScorer | None,
    evaluator: object,
    redact: RedactSpec | None,
    providers: Providers,
) -> Parts:
    """Return the parts that the arguments of `RagEval` ask for.

    Raises:
        ConfigError: A value is not accepted.
        ImportError: A judge, an embedder or a rule needs an extra that is not installed.
    """
    chosen_judge = _judge_given(judge)
    config = _settings(
        config,
        given,
        judge=chosen_judge,
        sample_rate=sample_rate,
        embedder=embedder,
        token_scorer=token_scorer,
        evaluator=evaluator,
    )
    fleet = _fleet(config, evaluator)
    available = build(metric_options(config))
    return parts_of(
        config,
        redactor=choose_redactor(config, redact),
        available=available,
        chosen=chosen_metrics(metrics, config, available),
        sources=finding_sources(config, chosen_judge, embedder, token_scorer),
        # Those of the settings are the workers'.
        sinks=sink_list(() if fleet and sinks is None else sinks, config),
        providers=providers,
        fleet=fleet,
    )


def _settings(
    config: RagEvalConfig | None,
    given: SettingKeywords,
    *,
    judge: object,
    sample_rate: object,
    embedder: object,
    token_scorer: object,
    evaluator: object,
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
    explicit |= given
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
            raise ConfigError(table.setting, kind_of(value), wants + _way_to_wrap(value))
    if sample_rate is not None:
        explicit["sample_rate"] = sample_rate
    if evaluator is not None:
        # Anything but a name is an application of Celery.
        explicit["evaluator"] = evaluator if isinstance(evaluator, str) else "celery"
    return RagEvalConfig(**explicit)


def _judge_given(judge: str | Judge | Function | None) -> str | Judge | None:
    """Return the judge that was passed; a function becomes one."""
    if inspect.isroutine(judge):
        return CallableJudge(judge)
    # Anything else is checked with the settings.
    return cast("str | Judge | None", judge)


def _way_to_wrap(value: object) -> str:
    """Return how an object of a framework becomes a judge, or nothing."""
    kinds = value.__mro__ if isinstance(value, type) else type(value).__mro__
    modules = {kind.__module__.partition(".")[0] for kind in kinds}
    if "langchain_core" in modules:
        return "; wrap it: rag_eval_hooks_langchain.LangChainJudge(model)"
    if "llama_index" in modules:
        return "; wrap it: rag_eval_hooks_llama_index.LlamaIndexJudge(llm)"
    if isinstance(value, type) or not callable(value):
        return ""
    return "; CallableJudge(function) makes one of any function"


def chosen_metrics(
    metrics: MetricSpec | Iterable[MetricSpec] | None,
    config: RagEvalConfig,
    available: Sequence[Metric],
) -> tuple[Metric, ...] | None:
    """Return the metrics asked for, or None for those of `ragas` that a sample can feed."""
    if metrics is None:
        return choose(config.metrics, available) if config.metrics else None
    asked = [metrics] if isinstance(metrics, str | Metric) or callable(metrics) else metrics
    if not isinstance(asked, Iterable) or isinstance(asked, RagEvalConfig):
        raise ConfigError("metrics", kind_of(asked), METRICS_WANTED)
    return choose(map(_metric_or_name, asked), available)


def _metric_or_name(spec: MetricSpec) -> str | Metric:
    if callable(spec) and not isinstance(spec, type):
        return metric_of(spec)
    # Anything that is neither is refused as an unknown name.
    return cast("str | Metric", spec)


def metric_options(config: RagEvalConfig) -> MetricOptions:
    """Return the options of the suites."""
    return MetricOptions(question_checks=_question_checks(config.question_checks))


def _fleet(config: RagEvalConfig, evaluator: object) -> RemoteFleet | None:
    """Return the workers that evaluate, or None if this process does.

    Raises:
        ConfigError: There is none that can be used, or the evaluator is no application of Celery.
        ImportError: The extra is not installed.
    """
    if config.evaluator != "celery":
        return None
    app: Any = None if evaluator is None or isinstance(evaluator, str) else evaluator
    if app is not None and not hasattr(app, "send_task"):
        wants = "'thread', 'celery' or an application of Celery"
        raise ConfigError("evaluator", type(app).__name__, wants)
    # Above the core: it builds on the pipeline.
    fleet: RemoteFleet = import_module("rag_eval_hooks_celery").fleet_of(config, app)
    return fleet


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
    named = judge.second_name if isinstance(judge, Cascade) else None
    config = config if named is None else config.model_copy(update={"judge": named})
    own = named is None and isinstance(judge, Cascade | Judge)
    embeds = embedder if isinstance(embedder, Embedder) else None
    if embeds is None and not (own and config.embedder == "auto"):
        # `auto` follows the judge of the settings; with a judge of the user's it means none.
        embeds = choose_embedder(config)
    made = _judge(config, judge, embeds)
    scorer = token_scorer if isinstance(token_scorer, TokenScorer) else choose_token_scorer(config)
    return Sources(
        judge=made,
        embedder=allowed(embeds),
        scorer=scorer,
    )


def _judge(config: RagEvalConfig, judge: str | Judge | None, embedder: Embedder | None) -> Judge:
    if isinstance(judge, Cascade):
        return judge.resolved(
            lambda name: choose_judge(config.model_copy(update={"judge": name}), embedder)
        )
    return metered(judge if isinstance(judge, Judge) else choose_judge(config, embedder))
