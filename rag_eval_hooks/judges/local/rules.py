"""The constants of the embedded judge."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RULES", "Rules"]


@dataclass(frozen=True, slots=True)
class Rules:
    """The constants of the embedded judge, chosen on labelled data.

    Attributes:
        covered: Least share of a claim's terms, by weight, in a window that supports it.
        joint: The same for several chunks together.
        agreed: The same for agreement of answer and reference.
        useful: Least relevance, of 1, of a useful chunk.
        name_weight: Weight of a term that belongs to a name or number; other terms weigh 1.
        asked_weight: Weight of a term that the question holds.
        discount: Factor on the coverage for each sentence of a window after the first.
        cosine: Least cosine of claim and sentence that makes up for lacking coverage.
        paraphrased: Least coverage that is left to make up for.
        same: Least cosine that needs no coverage at all.
    """

    covered: float = 0.6
    agreed: float = 0.55
    useful: float = 0.4
    joint: float = 0.75
    name_weight: float = 1.5
    asked_weight: float = 0.4
    discount: float = 0.95
    cosine: float = 0.65
    paraphrased: float = 0.3
    same: float = 0.8


RULES = Rules()
