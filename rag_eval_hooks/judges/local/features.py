"""Features of a claim beside the window of a chunk that covers it best."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, Final

from rag_eval_hooks.judges.local.units import Claim, Passage
from rag_eval_hooks.judges.local.windows import Window

__all__ = ["NAMES", "features"]

NAMES: Final = (
    "coverage", "second", "rare", "bigrams", "bigrams_chunk", "numbers", "numbers_near",
    "question", "beyond_chunk", "negation",
    "lacks", "lacks_rare", "lacks_anywhere", "lacks_pairs", "lacks_names",
)  # fmt: skip
"""The features: shares in [0, 1], and counts of what is lacking."""


def features(
    claim: Claim,
    window: Window,
    second: float,
    passage: Passage,
    passages: Sequence[Passage],
    question: frozenset[str],
) -> list[float]:
    """Return the features in the order of `NAMES`.

    Args:
        claim: The claim.
        window: The sentences of the passage that cover it best.
        second: Score of the best window of the other passages.
        passage: Where the window stands.
        passages: All passages.
        question: Terms of the question.
    """
    unit, units = claim.unit, window.units
    stated = window.held.union(*(u.terms for u in units))
    counts = {t: sum(len(p.index.get(t, ())) for p in passages) for t in unit.terms}
    rare = {term: 1.0 / (1 + count) for term, count in counts.items()}
    new = unit.terms - question
    names = [parts for parts in claim.names.values() if not parts <= passage.index.keys()]
    values = frozenset().union(*(u.numbers for u in units)) if unit.numbers else frozenset()
    return [
        window.score,
        second,
        sum(rare[t] for t in unit.terms & stated) / (sum(rare.values()) or 1.0),
        _share(unit.pairs, frozenset().union(*(u.pairs for u in units))),
        _share(unit.pairs, passage.pairs),
        sum(not any(p.has_number(n) for p in passages) for n in unit.numbers)
        / (len(unit.numbers) or 1),
        sum(n not in values and str(n) not in stated for n in unit.numbers)
        / (len(unit.numbers) or 1),
        _share(unit.terms, question),
        _share(new or unit.terms, passage.index.keys()),
        float(bool(unit.negated) != any(u.negated for u in units)),
        float(len(new - stated)),
        sum(rare[term] for term in new - stated),
        float(sum(not counts[term] for term in new)),
        float(len(unit.pairs.difference(*(p.pairs for p in passages)))),
        float(sum(not any(parts <= p.index.keys() for p in passages) for parts in names)),
    ]


def _share(wanted: frozenset[Any], held: Set[Any]) -> float:
    return len(wanted & held) / len(wanted) if wanted else 1.0
