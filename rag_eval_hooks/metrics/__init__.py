"""Creates the metrics of all suites, and selects the metrics that the user configured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final

from pydantic import TypeAdapter

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.findings import Findings
from rag_eval_hooks.metrics import graphrag, lexical, nvidia, ragas, retrieval, whitepaper
from rag_eval_hooks.metrics.citations import CITATION_SUPPORT
from rag_eval_hooks.metrics.graphrag import DontKnow
from rag_eval_hooks.metrics.metric import SUITES, AskedMetric, Metric
from rag_eval_hooks.metrics.question_checks import Check
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.text.folding import toml_of

__all__ = ["ALL_METRICS", "AskedMetric", "Metric", "build", "choose", "example"]

METRICS_WANTED: Final = "suite names, metric ids, Metric objects, or functions that accept a sample"
_GRAPHRAG_WEIGHTS: Final[Mapping[str, float]] = SUITES["graphrag"]["weights"]
_WHITEPAPER_WEIGHTS: Final[Mapping[str, float]] = SUITES["whitepaper"]["weights"]


def build(
    *,
    graphrag_weights: Mapping[str, float] = _GRAPHRAG_WEIGHTS,
    graphrag_rank_aware: bool = False,
    whitepaper_weights: Mapping[str, float] = _WHITEPAPER_WEIGHTS,
    dont_know: DontKnow = DontKnow.REFUSAL,
    question_checks: Iterable[Check] = (),
) -> tuple[Metric, ...]:
    return (
        *ragas.METRICS,
        *graphrag.build(graphrag_weights, dont_know, rank_aware=graphrag_rank_aware),
        *whitepaper.build(whitepaper_weights),
        *nvidia.METRICS,
        *lexical.METRICS,
        *retrieval.METRICS,
        CITATION_SUPPORT,
        *(check.metric() for check in question_checks),
    )


ALL_METRICS: tuple[Metric, ...] = build()


def choose(
    wanted: Iterable[str | Metric], available: Sequence[Metric] = ALL_METRICS
) -> tuple[Metric, ...]:
    items = list(wanted)
    refused = [item for item in items if isinstance(item, str) and item.startswith("-")]
    kept = [item for item in items if item not in refused]
    chosen: dict[str, Metric] = {}
    for item in kept or chosen_by_default(available):
        for metric in _named(item, available):
            if chosen.setdefault(metric.id, metric) is not metric:
                raise ConfigError("metrics", metric.id, "an id that no other metric has")
    for item in refused:
        for metric in _named(item[1:], available):
            chosen.pop(metric.id, None)
    if not (items and chosen):
        raise ConfigError("metrics", items, "at least one suite, metric id or Metric")
    return tuple(chosen.values())


def chosen_by_default(available: Sequence[Metric]) -> tuple[Metric, ...]:
    others = {metric.id for metric in ALL_METRICS if metric.suite != "ragas"}
    others.add("ragas.context_precision_without_reference")
    return tuple(one for one in available if one.id not in others)


def _named(name: object, available: Sequence[Metric]) -> Sequence[Metric]:
    if isinstance(name, Metric):
        return (name,)
    if name == "all":
        return available
    if not isinstance(name, str):
        raise ConfigError("metrics", name, METRICS_WANTED)
    found = tuple(metric for metric in available if name in (metric.suite, metric.id))
    if not found:
        known = {"all", *(each for metric in available for each in (metric.suite, metric.id))}
        raise ConfigError.unknown("metrics", name, known, listed="`rag-eval-hooks metrics`")
    return found


@cache  # created on first use, to keep the import fast
def example() -> tuple[Sample, Findings]:
    tables = toml_of("example.toml", __package__)
    findings = TypeAdapter(Findings).validate_python(tables["findings"])
    return Sample.from_dict(tables["sample"]), findings
