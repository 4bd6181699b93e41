"""What a pipeline is made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from rag_eval_hooks.delivery.platforms_open import Outbound
from rag_eval_hooks.evaluation.golden_references import References
from rag_eval_hooks.evaluation.scorer import Scorer
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.calls.budget import Budget
from rag_eval_hooks.sampling.selection import Selection
from rag_eval_hooks.telemetry.telemetry import Telemetry

__all__ = ["Closable", "Makers"]


class Closable(Protocol):
    """A judge, an embedder, a token scorer."""

    @property
    def name(self) -> str:
        """What errors call it."""
        ...

    async def aclose(self) -> None:
        """Releases what it holds."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Makers:
    """Make the parts of a pipeline, each with the place where incidents are counted.

    Attributes:
        scorer: Evaluates a sample.
        selection: Decides what is evaluated.
        references: Golden questions, or None.
        budget: Of judge calls, or None.
        telemetry: Sends spans, events and metrics.
        outbound: Begins and flushes the sinks that send in the background.
    """

    scorer: Callable[[Incidents], Scorer]
    selection: Callable[[Incidents], Selection]
    references: Callable[[Incidents], References | None]
    budget: Callable[[Incidents], Budget | None]
    telemetry: Callable[[Incidents], Telemetry]
    outbound: Callable[[Incidents], Outbound]
