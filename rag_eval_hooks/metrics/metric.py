"""What a metric is: an id, what it needs, and a pure function from findings to an outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import UNIT, Outcome, Scale

__all__ = ["Field", "Metric"]


class Field(StrEnum):
    """The fields of a sample that a metric can need."""

    QUESTION = "question"
    CONTEXTS = "contexts"
    ANSWER = "answer"
    REFERENCE = "reference"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric. Give your own to `RagEval(metrics=[...])`.

    Attributes:
        id: `<suite>.<metric>`.
        score: Pure function of a sample and its findings. It is only called when the sample
            has all of `needs`; it reads findings through `made`.
        needs: Fields without which the outcome is `missing_input`.
        findings: Findings that the function reads.
        scale: Native range and direction.
        summary: One sentence on what the number means.
        source: Where the definition stands.
    """

    id: str
    score: Callable[[Sample, Findings], Outcome]
    needs: frozenset[Field]
    findings: frozenset[Finding] = frozenset()
    scale: Scale = UNIT
    summary: str = ""
    source: str = ""

    @property
    def suite(self) -> str:
        """The part of the id before the first dot."""
        return self.id.partition(".")[0]

    def missing(self, sample: Sample) -> tuple[Field, ...]:
        """The needed fields that the sample lacks; a blank question counts as lacking."""
        return tuple(need for need in sorted(self.needs) if _lacks(sample, need))


def _lacks(sample: Sample, need: Field) -> bool:
    value = getattr(sample, need.value)
    return value is None or (need is Field.QUESTION and not value.strip())
