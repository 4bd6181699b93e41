"""All suites and how a user's choice of metrics is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.metrics import graphrag, lexical, nvidia, question_checks, ragas, whitepaper
from rag_eval_hooks.metrics.metric import AskedMetric, Field, Metric
from rag_eval_hooks.metrics.options import MetricOptions

__all__ = ["ALL_METRICS", "AskedMetric", "Field", "Metric", "MetricOptions", "build", "choose"]


def build(options: MetricOptions) -> tuple[Metric, ...]:
    """Return all suites with a user's options, question checks included."""
    return (
        *ragas.METRICS,
        *graphrag.build(options),
        *whitepaper.build(options),
        *nvidia.METRICS,
        *lexical.METRICS,
        *question_checks.metrics(options.question_checks),
    )


ALL_METRICS: tuple[Metric, ...] = build(MetricOptions())


def choose(
    wanted: Iterable[str | Metric], available: Sequence[Metric] = ALL_METRICS
) -> tuple[Metric, ...]:
    """Return the metrics that a user asks for, each once, in the order asked.

    Raises:
        ConfigError: A name is unknown, nothing is asked for, or two metrics share an id.
    """
    chosen: dict[str, Metric] = {}
    for item in wanted:
        for metric in (item,) if isinstance(item, Metric) else _named(item, available):
            if chosen.setdefault(metric.id, metric) is not metric:
                raise ConfigError("metrics", metric.id, "ids that differ from one another")
    if not chosen:
        raise ConfigError("metrics", (), "at least one suite, metric id or Metric")
    return tuple(chosen.values())


def _named(name: object, available: Sequence[Metric]) -> Sequence[Metric]:
    if name == "all":
        return available
    found = tuple(metric for metric in available if name in (metric.suite, metric.id))
    if not found:
        suites = dict.fromkeys(metric.suite for metric in available)
        known = ["all", *suites, *(metric.id for metric in available)]
        raise ConfigError("metrics", name, "a Metric or one of " + ", ".join(known))
    return found
