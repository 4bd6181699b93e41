"""Features of a claim beside the window of a chunk that covers it best.

Sums over sets are exact: their order differs between processes, and a score must not.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from math import fsum
from typing import Any, Final

from rag_eval_hooks.judges.local.units import Chunks, Claim, Passage
from rag_eval_hooks.judges.local.windows import Window

__all__ = ["NAMES", "Asked", "features"]

NAMES: Final = (
    "coverage", "second", "rare", "bigrams", "bigrams_chunk", "numbers", "numbers_near",
    "question", "beyond_chunk", "negation",
    "lacks", "lacks_rare", "lacks_anywhere", "lacks_pairs", "lacks_names",
)  # fmt: skip
"""The features: shares in [0, 1], and counts of what is lacking."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A claim beside all chunks: the part of its features that no window changes.

    Attributes:
        claim: The claim.
        chunks: All chunks.
        rare: Weight of each term of the claim, the greater the fewer sentences hold it.
        new: Its terms that the question lacks.
        lacking: Share of its numbers that no chunk has, share of its terms that the question has,
            and how many new terms, pairs and names no chunk has.
    """

    claim: Claim
    chunks: Chunks
    rare: Mapping[str, float]
    new: frozenset[str]
    lacking: tuple[float, float, float, float, float]

    @classmethod
    def of(cls, claim: Claim, chunks: Chunks, question: frozenset[str]) -> Asked:
        """Return a claim beside all chunks.

        Args:
            claim: The claim.
            chunks: All chunks.
            question: Terms of the question.
        """
        unit = claim.unit
        counts = {term: chunks.counts.get(term, 0) for term in unit.terms}
        new = unit.terms - question
        names = [p for p in claim.names.values() if not any(p <= c.index.keys() for c in chunks)]
        lacking = (
            sum(not any(c.has_number(n) for c in chunks) for n in unit.numbers)
            / (len(unit.numbers) or 1),
            _share(unit.terms, question),
            float(sum(not counts[term] for term in new)),
            float(len(unit.pairs - chunks.pairs)),
            float(len(names)),
        )
        return cls(claim, chunks, {t: 1.0 / (1 + n) for t, n in counts.items()}, new, lacking)


def features(asked: Asked, window: Window, second: float, passage: Passage) -> list[float]:
    """Return the features in the order of `NAMES`.

    Args:
        asked: The claim beside all chunks.
        window: The sentences of the passage that cover it best.
        second: Score of the best window of the other passages.
        passage: Where the window stands.
    """
    unit, units, rare, new = asked.claim.unit, window.units, asked.rare, asked.new
    numbers, question, anywhere, pairs, names = asked.lacking
    stated = window.held.union(*(u.terms for u in units))
    values = frozenset().union(*(u.numbers for u in units)) if unit.numbers else frozenset()
    lacks = new - stated
    return [
        window.score,
        second,
        fsum([rare[t] for t in unit.terms & stated]) / (fsum(rare.values()) or 1.0),
        _share(unit.pairs, frozenset().union(*(u.pairs for u in units))),
        _share(unit.pairs, passage.pairs),
        numbers,
        sum(n not in values and str(n) not in stated for n in unit.numbers)
        / (len(unit.numbers) or 1),
        question,
        _share(new or unit.terms, passage.index.keys()),
        float(bool(unit.negated) != any(u.negated for u in units)),
        float(len(lacks)),
        fsum([rare[term] for term in lacks]),
        anywhere,
        pairs,
        names,
    ]


def _share(wanted: frozenset[Any], held: Set[Any]) -> float:
    return len(wanted & held) / len(wanted) if wanted else 1.0
