"""All suites and how a user's choice of metrics is read."""

from __future__ import annotations

from collections.abc import Iterable

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.metrics import lexical, ragas
from rag_eval_hooks.metrics.metric import Field, Metric

__all__ = ["ALL_METRICS", "Field", "Metric", "choose"]

ALL_METRICS: tuple[Metric, ...] = (*ragas.METRICS, *lexical.METRICS)


def choose(wanted: Iterable[str | Metric]) -> tuple[Metric, ...]:
    """The metrics that a user asks for, each once, in the order asked.

    Args:
        wanted: Suites, metric ids, `all`, or metrics of the user's own.

    Raises:
        ConfigError: A name is unknown, nothing is asked for, or two metrics share an id.
    """
    chosen: dict[str, Metric] = {}
    for item in wanted:
        for metric in (item,) if isinstance(item, Metric) else _named(item):
            if chosen.setdefault(metric.id, metric) is not metric:
                raise ConfigError("metrics", metric.id, "ids that differ from one another")
    if not chosen:
        raise ConfigError("metrics", (), "at least one suite, metric id or Metric")
    return tuple(chosen.values())


def _named(name: object) -> tuple[Metric, ...]:
    if name == "all":
        return ALL_METRICS
    found = tuple(metric for metric in ALL_METRICS if name in (metric.suite, metric.id))
    if not found:
        suites = dict.fromkeys(metric.suite for metric in ALL_METRICS)
        known = ["all", *suites, *(metric.id for metric in ALL_METRICS)]
        raise ConfigError("metrics", name, "a Metric or one of " + ", ".join(known))
    return found
