"""What rules can rate: correct or not, how direct an answer is; by no rubric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag_eval_hooks.findings import Finding, Verdict
from rag_eval_hooks.judges.base import Embedder
from rag_eval_hooks.judges.local.agreement import agrees, denies
from rag_eval_hooks.judges.local.claims import claims
from rag_eval_hooks.judges.local.rules import Rules
from rag_eval_hooks.judges.local.stance import indistinct
from rag_eval_hooks.judges.local.units import Claim, Passage, terms
from rag_eval_hooks.judges.local.vectors import NO_VECTORS, Vectors
from rag_eval_hooks.score import Cause, NotScored
from rag_eval_hooks.tasks import Rate

__all__ = ["NO_RUBRIC", "rated"]

NO_RUBRIC = NotScored(Cause.MISSING_INPUT, "the embedded judge rates by no rubric")
_STEPS = 4  # of direct relevance above 0
_SHORT = 6  # content words; an answer of no more need not repeat the question


async def rated(task: Rate, embedder: Embedder | None, rules: Rules) -> Mapping[str, Any]:
    """Each wanted finding by its name.

    Raises:
        JudgeError: The embedder failed.
    """
    reference = claims(task.reference or "") or (task.reference or "",)
    vectors = NO_VECTORS
    if embedder and task.wanted & {Finding.CLASSIFICATION, Finding.DIRECT_RELEVANCE}:
        answer = Passage(task.answer).units
        vectors = await Vectors.of(
            embedder, [task.question, *reference, *(unit.text for unit in answer)]
        )
    made: dict[str, Any] = {kind.value: NO_RUBRIC for kind in task.wanted}
    if Finding.CLASSIFICATION in task.wanted:
        made[Finding.CLASSIFICATION] = classification(task, reference, vectors, rules)
    if Finding.DIRECT_RELEVANCE in task.wanted:
        made[Finding.DIRECT_RELEVANCE] = direct_relevance(task.question, task.answer, vectors)
    return made


def classification(
    task: Rate, reference: tuple[str, ...], vectors: Vectors, rules: Rules
) -> Verdict:
    """Whether the answer states all that the reference does and denies none of it."""
    question = frozenset(terms(task.question))
    answer = Passage(task.answer)
    for text in reference:
        stated = agrees(Claim.of(text), answer, question, vectors, rules)
        if not stated.holds:
            return stated
    other = Passage(task.reference or "")
    for text in claims(task.answer):
        if denied := denies(Claim.of(text), other, question, rules):
            return Verdict(False, f"the negation differs at {denied}")
    return stated


def direct_relevance(question: str, answer: str, vectors: Vectors = NO_VECTORS) -> float:
    """How far an answer takes up the question: 0, 0.25, 0.5, 0.75 or 1.

    The share of the question's content words that the answer holds, with vectors its mean with
    the cosine, to the nearest step. An answer that states nothing is at 0; a short one, which
    need not repeat the question, at 0.5 or above.
    """
    if indistinct(answer):
        return 0.0
    asked, said = frozenset(terms(question)), Passage(answer)
    share = len(asked & said.index.keys()) / len(asked) if asked else 1.0
    cosine = vectors.best(question, said)
    if cosine is not None:
        share = (share + max(cosine, 0.0)) / 2
    if len(said.index) <= _SHORT:
        share = max(share, 0.5)
    return round(_STEPS * share) / _STEPS
