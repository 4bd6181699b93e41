"""What the sampler of these settings says of an id."""

from __future__ import annotations

from collections.abc import Sequence

from rag_eval_hooks.cli.doctor.result import Result, Setup, Status
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.decision import Decision, Traits
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.metrics import Metric, build
from rag_eval_hooks.pipeline import ADVICE
from rag_eval_hooks.pipeline.wiring import chosen_metrics, metric_options
from rag_eval_hooks.sampling.sampler import MetricNames, sampler_of

__all__ = ["from_sampler", "share_of_requests"]


def share_of_requests(config: RagEvalConfig) -> Result:
    """How many requests the rates of the chosen metrics take, without what rules say."""
    _metrics, decision = _decided(config, "")
    rate, more = decision.probability, _more(config)
    if rate or config.rules or config.tail:
        text = f"{rate:.4g} of all requests{more}"
        return Result(check="sampling", status=Status.OK, text=text)
    text = "all rates of the chosen metrics are 0: nothing is evaluated"
    advice = "set sample_rate, or one of metric_rates, above 0"
    return Result(check="sampling", status=Status.WARNING, text=text, advice=advice)


def from_sampler(setup: Setup, key: str) -> Result:
    """Whether the id is taken, at which rate, by how many metrics."""
    try:
        metrics, decision = _decided(setup.config, key)
    except ConfigError as error:
        advice = f"set {error.field}: {error.wants}"
        return Result(check="sampler", status=Status.FAILED, text=str(error), advice=advice)
    rate, chosen = decision.probability, decision.chosen
    more = _more(setup.config)
    if not decision.sampled:
        text = f"at probability {rate:g} ({decision.because}) this id is left out{more}"
        return Result(check="sampler", status=Status.NOTE, text=text, advice=ADVICE["sampled_out"])
    text = f"at probability {rate:g} ({decision.because}) this id is taken"
    if left := [metric.id for metric in metrics if metric.id not in chosen]:
        text += f", but for {len(left)} of {len(metrics)} metrics: {', '.join(left[:8])}"
        text += " and others" if len(left) > 8 else ""
    return Result(check="sampler", status=Status.OK, text=text + more)


def _decided(config: RagEvalConfig, key: str) -> tuple[Sequence[Metric], Decision]:
    available = build(metric_options(config))
    metrics = chosen_metrics(None, config, available) or available
    # Rules go by what a request was, which an id does not tell.
    plain = config.model_copy(update={"rules": ()})
    return metrics, sampler_of(plain, MetricNames(metrics, available)).decide(key, Traits)


def _more(config: RagEvalConfig) -> str:
    told = [name for name, rules in (("rules", config.rules), ("tail rules", config.tail)) if rules]
    told += ["a rate limit"] if config.rate_limit else []
    return f"; {' and '.join(told)} may say otherwise" if told else ""
