"""Parts of a pipeline that outlive a fork."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from opentelemetry.trace import TracerProvider

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.delivery.delivery import AnySink
from rag_eval_hooks.evaluation.golden_references import References
from rag_eval_hooks.evaluation.scorer import Scorer
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.calls.budget import Budget
from rag_eval_hooks.redaction import Redactor
from rag_eval_hooks.sampling.selection import Selection
from rag_eval_hooks.telemetry.telemetry import Telemetry

__all__ = ["Closable", "Parts"]


class Closable(Protocol):
    """Judge, embedder or token scorer."""

    @property
    def name(self) -> str:
        """Name in errors."""
        ...

    async def aclose(self) -> None:
        """Release what it holds."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Parts that a pipeline is made of, built once.

    Attributes:
        config: The settings.
        incidents: Counter of caught exceptions.
        redactor: Redacts samples.
        selection: Decides which metrics of a sample are evaluated.
        scorer: Evaluates a sample.
        references: Golden questions, or None.
        budget: Budget of judge calls, or None.
        telemetry: Publishes spans, events and metrics.
        sinks: Where evaluations go besides telemetry.
        tracer_provider: Provider of the RAG spans, or None for the global one.
        judges: Judge, embedder and token scorer, closed at shutdown.
    """

    config: RagEvalConfig
    incidents: Incidents
    redactor: Redactor
    selection: Selection
    scorer: Scorer
    references: References | None
    budget: Budget | None
    telemetry: Telemetry
    sinks: Sequence[AnySink]
    tracer_provider: TracerProvider | None
    judges: Sequence[Closable]

    def forked(self) -> None:
        """Replace locks and counts that a child must not inherit."""
        self.incidents.forked()
        self.telemetry.forked()
        for part in (self.references, self.budget):
            if part is not None:
                part.forked()
