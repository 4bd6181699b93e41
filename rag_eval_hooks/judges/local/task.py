"""What the embedded judge is asked about one sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import NotScored
from rag_eval_hooks.text.folding import collapse_runs

__all__ = ["Task"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One call of `Judge.make`, with its texts at hand; texts that are absent are blank."""

    wanted: frozenset[Finding]
    sample: Sample
    question: str
    chunks: tuple[str, ...]
    answer: str
    reference: str
    answer_claims: tuple[str, ...]
    reference_claims: tuple[str, ...]
    entities: tuple[str, ...]

    @classmethod
    def of(cls, sample: Sample, wanted: frozenset[Finding], known: Findings) -> Self:
        """Take a call apart; long runs of one character are collapsed."""
        return cls(
            wanted=wanted,
            sample=sample,
            question=collapse_runs(sample.question),
            chunks=tuple(collapse_runs(context.text) for context in sample.contexts or ()),
            answer=collapse_runs(sample.answer or ""),
            reference=collapse_runs(sample.reference or ""),
            answer_claims=_items(known.answer_claims),
            reference_claims=_items(known.reference_claims),
            entities=_items(known.entities),
        )


def _items(finding: tuple[str, ...] | NotScored) -> tuple[str, ...]:
    return () if isinstance(finding, NotScored) else tuple(map(collapse_runs, finding))
