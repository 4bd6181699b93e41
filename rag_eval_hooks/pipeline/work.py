"""One accepted sample on its way through the evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rag_eval_hooks.decision import Decision
from rag_eval_hooks.pipeline.feedback_memory import Joinable
from rag_eval_hooks.pipeline.offer import Offer
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.spool.entry import Entry
from rag_eval_hooks.spool.recovery import Recovered

__all__ = ["Work"]


@dataclass(slots=True, eq=False)
class Work:
    """A sample that is to be evaluated.

    Attributes:
        offer: What was offered.
        decision: The sampler's.
        joinable: What a feedback can join.
        ticket: Of the books.
        is_open: Whether the sample has to be looked at before the decision stands.
        entry: Its place in the spool, where there is one.
        found: What a process that has ended left of it, where there was one.
    """

    offer: Offer
    decision: Decision
    joinable: Joinable
    ticket: int = -1
    is_open: bool = False
    entry: Entry | None = None
    found: Recovered | None = None

    @property
    def positions(self) -> Mapping[str, int] | None:
        """Where sinks stood when another process accepted it: what they hold of it comes after."""
        return None if self.found is None else self.found.entry.positions

    @property
    def outcomes(self) -> Outcomes | None:
        """What that process found."""
        return None if self.found is None else self.found.outcomes

    def sample(self) -> Sample:
        """The sample; with a spool always the same one.

        Raises:
            Exception: Whatever building it raises.
        """
        return self.offer.sample() if self.entry is None else self.entry.sample()
