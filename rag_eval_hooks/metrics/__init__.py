"""Builds the metric suites, and selects the metrics that a user chose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.metrics import graphrag, lexical, nvidia, ragas, retrieval, whitepaper
from rag_eval_hooks.metrics.citations import CITATION_SUPPORT
from rag_eval_hooks.metrics.metric import AskedMetric, Metric, gaps, missing_inputs
from rag_eval_hooks.metrics.metric_options import MetricOptions
from rag_eval_hooks.sample import Field

__all__ = [
    "ALL_METRICS",
    "METRICS_WANTED",
    "AskedMetric",
    "Field",
    "Metric",
    "MetricOptions",
    "build",
    "choose",
    "chosen_by_default",
    "gaps",
    "missing_inputs",
]


def build(options: MetricOptions) -> tuple[Metric, ...]:
    return (
        *ragas.METRICS,
        *graphrag.build(options),
        *whitepaper.build(options),
        *nvidia.METRICS,
        *lexical.METRICS,
        *retrieval.METRICS,
        CITATION_SUPPORT,
        *(check.metric() for check in options.question_checks),
    )


ALL_METRICS: tuple[Metric, ...] = build(MetricOptions())
METRICS_WANTED: Final = "names of suites or metrics, Metric objects or functions of a sample"


def choose(
    wanted: Iterable[str | Metric], available: Sequence[Metric] = ALL_METRICS
) -> tuple[Metric, ...]:
    """Return the chosen metrics in order, without duplicates.

    A name with a leading `-` excludes its metrics from those of the other names. Without other
    names, the default metrics lose these metrics.

    Raises:
        ConfigError: A name is unknown, no metric remains, or two metrics have the same id.
    """
    chosen: dict[str, Metric] = {}
    refused: set[str] = set()
    items = list(wanted)
    if items and all(isinstance(item, str) and item.startswith("-") for item in items):
        chosen = {metric.id: metric for metric in chosen_by_default(available)}
    for item in items:
        if isinstance(item, str) and item.startswith("-"):
            refused |= {metric.id for metric in _named(item[1:], available)}
            continue
        for metric in (item,) if isinstance(item, Metric) else _named(item, available):
            if chosen.setdefault(metric.id, metric) is not metric:
                raise ConfigError("metrics", metric.id, "ids that differ from one another")
    chosen = {name: metric for name, metric in chosen.items() if name not in refused}
    if not chosen:
        raise ConfigError("metrics", items, "at least one suite, metric id or Metric")
    return tuple(chosen.values())


def chosen_by_default(available: Sequence[Metric]) -> tuple[Metric, ...]:
    """Return the suite `ragas` and the question checks.

    For a sample without a reference, `context_precision_without_reference` replaces
    `context_precision`.
    """
    others = {metric.id for metric in ALL_METRICS if metric.suite != "ragas"}
    others.add("ragas.context_precision_without_reference")
    return tuple(one for one in available if one.id not in others)


def _named(name: object, available: Sequence[Metric]) -> Sequence[Metric]:
    if name == "all":
        return available
    found = tuple(metric for metric in available if name in (metric.suite, metric.id))
    if not found:
        suites = dict.fromkeys(metric.suite for metric in available)
        known = ["all", *suites, *(metric.id for metric in available)]
        if not isinstance(name, str):
            raise ConfigError("metrics", name, METRICS_WANTED)
        raise ConfigError.unknown("metrics", name, known, listed="`rag-eval-hooks metrics`")
    return found
