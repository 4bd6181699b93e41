"""Builds the metric suites, and selects the metrics that a user chose."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Final

from pydantic import TypeAdapter

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.findings import Findings
from rag_eval_hooks.metrics import graphrag, lexical, nvidia, ragas, retrieval, whitepaper
from rag_eval_hooks.metrics.citations import CITATION_SUPPORT
from rag_eval_hooks.metrics.graphrag import DontKnow
from rag_eval_hooks.metrics.metric import SUITES, AskedMetric, Metric, gaps, missing_inputs
from rag_eval_hooks.metrics.question_checks import Check
from rag_eval_hooks.sample import Field, Sample
from rag_eval_hooks.text.folding import toml_of

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
    "example",
    "gaps",
    "missing_inputs",
]


def _weights(suite: str) -> dict[str, float]:
    return {**SUITES[suite]["weights"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricOptions:
    """Options of the metric suites.

    Attributes:
        graphrag_weights: Weight of each part of `graphrag.ragas_score`.
        graphrag_rank_aware: Whether `graphrag.ragas_context_precision` considers the chunks' rank.
        whitepaper_weights: Weight of each part of `whitepaper.weighted_score`.
        dont_know: How `graphrag.answer_class` detects DON'T KNOW answers.
        question_checks: Checks for known questions, from `parse_checks`.

    Raises:
        ConfigError: A weight names an unknown part, is negative or not finite, or all weights are
            0. Another cause is two checks with the same question.
    """

    graphrag_weights: Mapping[str, float] = field(default_factory=partial(_weights, "graphrag"))
    graphrag_rank_aware: bool = False
    whitepaper_weights: Mapping[str, float] = field(default_factory=partial(_weights, "whitepaper"))
    dont_know: DontKnow = DontKnow.REFUSAL
    question_checks: tuple[Check, ...] = ()

    def __post_init__(self) -> None:
        for suite in ("graphrag", "whitepaper"):
            _refuse_weights(f"{suite}_weights", getattr(self, f"{suite}_weights"), _weights(suite))
        ids = [check.question_id for check in self.question_checks]
        if len(set(ids)) < len(ids):
            raise ConfigError("question_checks", ids, "one check for each question")


def _refuse_weights(name: str, weights: Mapping[str, float], known: Mapping[str, float]) -> None:
    for part, weight in weights.items():
        if part not in known:
            raise ConfigError.unknown(name, part, known)
        if not (math.isfinite(weight) and weight >= 0):
            raise ConfigError(f"{name}.{part}", weight, "a finite number, 0 or more")
    if not any(weights.values()):
        raise ConfigError(name, dict(weights), "weights, at least one of them above 0")


def build(options: MetricOptions) -> tuple[Metric, ...]:
    ranked = options.graphrag_rank_aware
    return (
        *ragas.METRICS,
        *graphrag.build(options.graphrag_weights, options.dont_know, rank_aware=ranked),
        *whitepaper.build(options.whitepaper_weights),
        *nvidia.METRICS,
        *lexical.METRICS,
        *retrieval.METRICS,
        CITATION_SUPPORT,
        *(check.metric() for check in options.question_checks),
    )


ALL_METRICS: tuple[Metric, ...] = build(MetricOptions())
METRICS_WANTED: Final = "names of suites or metrics, Metric objects, or functions of one sample"


def choose(
    wanted: Iterable[str | Metric], available: Sequence[Metric] = ALL_METRICS
) -> tuple[Metric, ...]:
    """Return the chosen metrics in order, without duplicates.

    A name with a leading `-` excludes its metrics. If every name has a leading `-`, the result is
    the default metrics without the excluded metrics.

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
    """Return the suite `ragas` and the question checks."""
    others = {metric.id for metric in ALL_METRICS if metric.suite != "ragas"}
    others.add("ragas.context_precision_without_reference")
    return tuple(one for one in available if one.id not in others)


def _named(name: object, available: Sequence[Metric]) -> Sequence[Metric]:
    if name == "all":
        return available
    if not isinstance(name, str):
        raise ConfigError("metrics", name, METRICS_WANTED)
    found = tuple(metric for metric in available if name in (metric.suite, metric.id))
    if not found:
        known = {"all", *(each for metric in available for each in (metric.suite, metric.id))}
        raise ConfigError.unknown("metrics", name, known, listed="`rag-eval-hooks metrics`")
    return found


@cache  # made on first use, because it would add milliseconds to the import
def example() -> tuple[Sample, Findings]:
    """Return the example of `example.toml`, for documentation and tests."""
    tables = toml_of("example.toml", __package__)
    findings = TypeAdapter(Findings).validate_python(tables["findings"])
    return Sample.from_dict(tables["sample"]), findings
