"""What an evaluation is made from, in a form that another process can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges import Embedder, Judge, TokenScorer
from rag_eval_hooks.metrics import Metric, MetricOptions, build, choose
from rag_eval_hooks.pipeline import Scorer, Sources
from rag_eval_hooks.pipeline.wiring import finding_sources

__all__ = ["Recipe", "named"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Settings, and the objects of the user's own. Makes the same scorer wherever it is read.

    Attributes:
        config: The settings in force; nothing is read from the environment again.
        options: Of the suites, question checks included.
        metrics: Ids and own metrics that were asked for, or None for all that a sample feeds.
        judge: The user's own, or None for the one that the settings name.
        embedder: Likewise.
        token_scorer: Likewise.
    """

    config: RagEvalConfig
    options: MetricOptions
    metrics: tuple[str | Metric, ...] | None = None
    judge: Judge | None = None
    embedder: Embedder | None = None
    token_scorer: TokenScorer | None = None

    def sources(self) -> Sources:
        """Judge, embedder and token scorer.

        Raises:
            ConfigError: A setting cannot be used.
            ImportError: An extra is not installed.
        """
        return finding_sources(self.config, self.judge, self.embedder, self.token_scorer)

    def scorer(self, sources: Sources, incidents: Incidents) -> Scorer:
        """What evaluates a sample."""
        available = build(self.options)
        return Scorer(
            available if self.metrics is None else choose(self.metrics, available),
            sources,
            self.config.sample_timeout,
            incidents,
            only_fed=self.metrics is None,
        )


def named(
    chosen: Sequence[Metric] | None, available: Sequence[Metric]
) -> tuple[str | Metric, ...] | None:
    """The chosen metrics, those of the suites by their ids: not all of them can be pickled."""
    if chosen is None:
        return None
    known = {id(metric) for metric in available}
    return tuple(metric.id if id(metric) in known else metric for metric in chosen)
