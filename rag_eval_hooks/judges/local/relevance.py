"""How useful each chunk is for the question, by overlap of terms as BM25 weighs it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rag_eval_hooks.findings import ChunkRelevance
from rag_eval_hooks.judges.local.rules import RULES, Rules
from rag_eval_hooks.judges.local.units import Passage, Unit, as_written, terms
from rag_eval_hooks.judges.local.vectors import NO_VECTORS, Vectors
from rag_eval_hooks.judges.local.windows import best_window

__all__ = ["relevance"]


def relevance(
    question: str,
    target: str,
    passages: Sequence[Passage],
    vectors: Vectors = NO_VECTORS,
    rules: Rules = RULES,
) -> tuple[ChunkRelevance, ...]:
    """One verdict per chunk.

    Args:
        question: The user's question.
        target: The reference or, without one, the answer; possibly blank.
        passages: The chunks.
        vectors: Holds the question and the sentences, or nothing.
        rules: Constants.

    Returns:
        Ratings from 0 to 100: the mean of how much of the question and of the target a chunk
        covers; with vectors also the cosine of the question. Useful from `rules.useful` on.
    """
    asked = _weighted(terms(question), passages)
    wanted = _weighted([t for t in terms(target) if t not in asked], passages)
    texts = (Unit(question), Unit(target))
    return tuple(_rated(texts, asked, wanted, p, vectors, rules) for p in passages)


def _weighted(wanted: Sequence[str], passages: Sequence[Passage]) -> dict[str, float]:
    """Terms by their weight: rare among the chunks weighs more, found in none counts as rare."""
    size = len(passages)
    weight = {}
    for term in wanted:
        holding = sum(term in passage.index for passage in passages)
        weight[term] = math.log(1 + (size + 1) / (holding + 0.5))
    return weight


def _rated(
    texts: tuple[Unit, Unit],
    asked: dict[str, float],
    wanted: dict[str, float],
    passage: Passage,
    vectors: Vectors,
    rules: Rules,
) -> ChunkRelevance:
    parts = [_overlap(asked, passage)] if asked else []
    if wanted:
        parts.append(_overlap(wanted, passage))
    rating = sum(parts) / len(parts) if parts else 0.0
    if (cosine := vectors.best(texts[0].text, passage)) is not None:
        rating = (rating + max(cosine, 0.0)) / 2
    held = {**asked, **wanted}.keys() & passage.index.keys()
    reason = f"holds: {as_written(held, *texts)}" if held else "holds no term of question or answer"
    return ChunkRelevance(rating >= rules.useful, min(100.0 * rating, 100.0), reason)


def _overlap(weight: dict[str, float], passage: Passage) -> float:
    """Covered share of the weight in [0, 1]: half by the chunk, half by its best window."""
    total = sum(weight.values())
    whole = sum(w for term, w in weight.items() if term in passage.index) / total
    return (whole + best_window(weight, passage).score) / 2
