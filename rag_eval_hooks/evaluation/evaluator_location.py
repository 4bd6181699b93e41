"""Where samples are evaluated: in a thread of the application, or in a process beside it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.evaluation.evaluator_spec import Recipe
from rag_eval_hooks.evaluation.process import (
    Launch,
    NotPortable,
    ProcessLimits,
    ProcessScorer,
    obstacle,
    packed,
)
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.metrics import Metric
from rag_eval_hooks.pipeline import Scorer, Sources

__all__ = ["MakeScorer", "placed"]

_logger = logging.getLogger("rag_eval_hooks")

MakeScorer: TypeAlias = Callable[[Incidents], Scorer | ProcessScorer]


def placed(recipe: Recipe, metrics: Sequence[Metric], sources: Sources) -> MakeScorer:
    """Makes what evaluates samples, where the setting `evaluator` says.

    Args:
        recipe: What it is made from.
        metrics: The metrics.
        sources: Who makes the findings, in this process.

    Raises:
        ConfigError: A process is asked for, and there can be none.
    """
    launch = _launch(recipe, sources)

    def in_thread(incidents: Incidents) -> Scorer:
        return recipe.scorer(sources, incidents)

    if launch is None:
        return in_thread
    limits = ProcessLimits.of(recipe.config, metrics)
    return lambda incidents: ProcessScorer(
        launch,
        metrics,
        limits,
        incidents,
        only_fed=recipe.metrics is None,
        instead=in_thread(incidents) if recipe.config.evaluator == "auto" else None,
    )


def _launch(recipe: Recipe, sources: Sources) -> Launch | None:
    """How the process is started, or None for a thread."""
    setting = recipe.config.evaluator
    if setting == "thread" or (setting == "auto" and not _is_heavy(sources)):
        return None
    hindrance = obstacle() or _tie(recipe.config)
    if hindrance is None:
        try:
            return Launch.here(
                packed(recipe),
                threads=recipe.config.evaluator_threads,
                message_bytes=recipe.config.evaluator_message_mb << 20,
            )
        except NotPortable as error:
            hindrance = str(error)
    if setting == "process":
        wants = f"'thread' or 'auto', as another process cannot be used here: {hindrance}"
        raise ConfigError("evaluator", setting, wants)
    _logger.warning("local models run in a thread of this process: %s", hindrance)
    return None


def _tie(config: RagEvalConfig) -> str | None:
    """Why settings keep the evaluation in this process, or None."""
    if config.budget and config.budget_path is None:
        return "a budget is shared with it by a file only; set budget_path"
    if config.references_threshold is not None:
        return "references_threshold embeds questions in this process"
    return None


def _is_heavy(sources: Sources) -> bool:
    """Whether a model runs in the evaluator itself, and not behind a network."""
    parts = (sources.judge, sources.embedder, sources.scorer)
    return any(getattr(part, "local_model", False) for part in parts)
