"""Closeness of claims and sentences: by weighted terms, and by cosine with an embedder."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import mul

from rag_eval_hooks.judges.base import Embedder
from rag_eval_hooks.judges.local.units import Claim, Passage, Unit
from rag_eval_hooks.text.measures import agree

__all__ = ["NO_VECTORS", "RULES", "Rules", "Vectors", "Window", "best_window", "weights"]

_SPAN = 3  # sentences in the longest window


@dataclass(frozen=True, slots=True)
class Rules:
    """Constants of the embedded judge, chosen on labelled data.

    Attributes:
        joint: Least share of a claim's terms, by weight, in several chunks together.
        agreed: Least share of a claim's terms, by weight, that answer and reference share.
        useful: Least relevance, of 1, of a useful chunk.
        name_weight: Weight of a term that belongs to a name or number; other terms weigh 1.
        asked_weight: Weight of a term that the question holds.
        discount: Factor on the coverage for each sentence of a window after the first.
        same: Least cosine of answer and reference that say the same.
    """

    agreed: float = 0.55
    useful: float = 0.4
    joint: float = 0.75
    name_weight: float = 1.5
    asked_weight: float = 0.4
    discount: float = 0.95
    same: float = 0.8


RULES = Rules()


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive sentences of a chunk that cover a claim best.

    Attributes:
        score: Weighted share of the claim's terms that they hold, after the discount.
        held: Those terms.
        units: The sentences.
    """

    score: float
    held: frozenset[str]
    units: Sequence[Unit]

    def closest(self) -> Unit:
        """Return the sentence that holds most of the window's terms."""
        if len(self.units) == 1:
            return self.units[0]
        return max(self.units, key=lambda unit: len(unit.terms & self.held))


_NOTHING = Window(0.0, frozenset(), ())


def weights(
    claim: Claim, neutral: frozenset[str] = frozenset(), rules: Rules = RULES
) -> dict[str, float]:
    """Return the weight of each term of a claim; `neutral` terms, the question's, weigh less."""
    special = frozenset[str]().union(*claim.names.values())
    return {
        term: rules.asked_weight
        if term in neutral
        else (rules.name_weight if term in special or term[0].isdigit() else 1.0)
        for term in dict.fromkeys(claim.unit.chain)
    }


def best_window(
    weight: dict[str, float], passage: Passage, rules: Rules = RULES, claim: Unit | None = None
) -> Window:
    """Return the window of one to three sentences that covers the weighted terms best.

    Args:
        weight: Weight of each term of the claim.
        passage: Where to look.
        rules: Constants.
        claim: The claim, for quantities that the passage writes in another way.
    """
    hits = _hits(weight, passage, claim)
    factors = [rules.discount**size for size in range(_SPAN)]
    best, where = 0.0, (0, 0)
    for start in sorted(hits):
        held: set[str] = set()
        covered = 0.0
        for size, factor in enumerate(factors):
            for term in hits.get(start + size, ()):
                if term not in held:
                    held.add(term)
                    covered += weight[term]
            if covered * factor > best:
                best, where = covered * factor, (start, start + size + 1)
    if not best:
        return _NOTHING
    units = passage.units[slice(*where)]
    stated = frozenset(weight).intersection(chain.from_iterable(unit.terms for unit in units))
    return Window(best / sum(weight.values()), stated, units)


def _hits(weight: dict[str, float], passage: Passage, claim: Unit | None) -> dict[int, list[str]]:
    """Return the weighted terms that each sentence holds, without sentences that hold none."""
    hits: dict[int, list[str]] = {}
    index = passage.index
    for term in weight:
        for at in index.get(term, ()):
            hits.setdefault(at, []).append(term)
    for at, term in _converted(claim, passage) if claim and claim.measures else ():
        if term in weight and term not in hits.setdefault(at, []):
            hits[at].append(term)
    return hits


def _converted(claim: Unit, passage: Passage) -> Iterator[tuple[int, str]]:
    """Yield sentences that state a quantity of the claim in other words, and its terms."""
    for said, wanted in claim.measured:
        if all(term in passage.index for term in wanted):
            continue
        for at, stated in passage.measures:
            if agree(said, stated):
                yield from ((at, term) for term in wanted)


class Vectors:
    """Normalised vectors by text; a text without one has no cosine."""

    def __init__(self, by_text: Mapping[str, Sequence[float]]) -> None:
        self._by_text = by_text

    @classmethod
    async def of(cls, embedder: Embedder, texts: Iterable[str]) -> Vectors:
        """Return the vectors of the distinct texts, from one call.

        Raises:
            JudgeError: The embedder failed.
        """
        distinct = list(dict.fromkeys(texts))
        if not distinct:
            return NO_VECTORS
        vectors = await embedder.embed(distinct)
        return cls(dict(zip(distinct, map(_normalised, vectors), strict=True)))

    def best(self, text: str, passage: Passage) -> float | None:
        """Return the greatest cosine of the text and a sentence of the passage, in [-1, 1]."""
        vector = self._by_text.get(text)
        if vector is None:
            return None
        others = (self._by_text.get(unit.text) for unit in passage.units)
        return max((sum(map(mul, vector, other)) for other in others if other), default=None)


def _normalised(vector: Sequence[float]) -> Sequence[float]:
    length = math.sqrt(sum(map(mul, vector, vector)))
    return [value / length for value in vector] if length else vector


NO_VECTORS = Vectors({})
