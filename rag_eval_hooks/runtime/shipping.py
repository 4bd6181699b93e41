"""Evaluation on other machines, as the pipeline sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from rag_eval_hooks.calls import CallLog
from rag_eval_hooks.decision import Decision
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.request import Ending
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes

__all__ = ["BROKER_DOWN", "Measurement", "RemoteEvaluator", "RemoteFleet"]

BROKER_DOWN: Final = "broker"
"""Reason of samples that the broker did not accept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Outcomes of one sample; times in nanoseconds since the epoch."""

    outcomes: Outcomes
    start: int
    end: int
    log: CallLog = field(default_factory=CallLog)


class RemoteEvaluator(Protocol):
    """Evaluates the samples of one process on other machines."""

    @property
    def is_down(self) -> bool:
        """True while no sample can be sent."""
        ...

    async def evaluate(
        self, sample: Sample, decision: Decision, accepted: float
    ) -> Measurement | Ending:
        """Return what a worker measured and published, or the end of a sample without that."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


RemoteFleet: TypeAlias = Callable[[Incidents, str], RemoteEvaluator]
"""Returns the evaluator of this process, whose samples bear a mark of redaction."""
