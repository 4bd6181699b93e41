"""Whether the chosen metrics exist and can be fed by what is configured."""

from __future__ import annotations

from collections.abc import Iterator

from rag_eval_hooks.cli.doctor.result import Result, Setup, Status
from rag_eval_hooks.cli.doctor.sampler import share_of_requests
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.metrics import build
from rag_eval_hooks.pipeline.wiring import chosen_metrics, metric_options
from rag_eval_hooks.sampling.selection import Selection

__all__ = ["check_metrics"]


def check_metrics(setup: Setup) -> Iterator[Result]:
    """The metrics that will be computed."""
    try:
        available = build(metric_options(setup.config))
        chosen = chosen_metrics(None, setup.config, available)
    except ConfigError as error:
        advice = f"set {error.field}; `rag-eval-hooks metrics` lists what there is"
        yield Result(check="metrics", status=Status.FAILED, text=str(error), advice=advice)
        return
    if chosen is None:
        text = f"all that a sample can feed, of {len(available)}"
    else:
        text = f"{len(chosen)}: " + ", ".join(metric.id for metric in chosen)
    yield Result(check="metrics", status=Status.OK, text=text)
    try:
        Selection(setup.config, chosen or available, available, Incidents())
    except ConfigError as error:
        advice = f"set {error.field}: {error.wants}"
        yield Result(check="sampling", status=Status.FAILED, text=str(error), advice=advice)
        return
    yield share_of_requests(setup.config)
