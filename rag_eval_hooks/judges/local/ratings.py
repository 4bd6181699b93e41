"""Ratings by rules: correct or not, direct or not, indistinct or not. None by a rubric."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rag_eval_hooks.findings import Finding, Verdict
from rag_eval_hooks.judges.base import Embedder
from rag_eval_hooks.judges.local.agreement import agrees, denies
from rag_eval_hooks.judges.local.claims import claims
from rag_eval_hooks.judges.local.short_answers import aliases, given_otherwise, without_marks
from rag_eval_hooks.judges.local.task import Task
from rag_eval_hooks.judges.local.terms import terms
from rag_eval_hooks.judges.local.units import Claim, Passage
from rag_eval_hooks.judges.local.windows import NO_VECTORS, Rules, Vectors
from rag_eval_hooks.text.refusals import refusal

__all__ = ["RATE", "indistinct", "rated"]

_STEPS = 4  # of direct relevance above 0
_SHORT = 6  # content words; an answer of no more need not repeat the question
_HEDGE = re.compile(
    r"\b(?:maybe|perhaps|possibly|might|could|may|(?:it|that|this) (?:all )?depends|hard to say"
    r"|not (?:quite |entirely |really )?sure|i (?:think|guess|suppose)|some(?:thing|how|times)"
    r"|vielleicht|möglicherweise|vermutlich|kommt darauf an|ربما)\b"
    r"|也许|或许|可能|かもしれ|たぶん|おそらく",
    re.IGNORECASE,
)
_NO_ANSWER = re.compile(
    r"\b(?:weiß|wissen) (?:ich |wir )?(?:es |das )?(?:leider )?nicht\b"
    r"|\bkeine (?:ahnung|angaben?|informationen)\b|\bnicht (?:beantwort\w+|bekannt|erwähnt)\b"
    r"|不知道|不清楚|不确定|无法(?:回答|确定|判断)|没有(?:提到|相关|足够)|未提及"
    r"|(?:わかり|分かり)ません|(?:分から|わから)ない|不明です|記載(?:が|は)?(?:ありません|ない)"
    r"|لا (?:أعرف|أعلم|ندري|أدري)|غير معروف|لا توجد معلومات|لا يمكن(?:ني)? (?:الإجابة|تحديد)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _RateRequest:
    """A task with the vectors of its sentences."""

    task: Task
    vectors: Vectors
    rules: Rules


async def rated(task: Task, embedder: Embedder | None, rules: Rules) -> Mapping[str, Any]:
    """Return each wanted finding by its name.

    Raises:
        JudgeError: The embedder failed.
    """
    wanted = task.wanted & RATE.keys()
    if not wanted:
        return {}
    reference = [claim for alias in aliases(task.reference) for claim in _claims(alias)]
    vectors = NO_VECTORS
    if embedder:
        answer = Passage(task.answer).units
        vectors = await Vectors.of(
            embedder, [task.question, *reference, *(unit.text for unit in answer)]
        )
    request = _RateRequest(task, vectors, rules)
    return {kind.value: RATE[kind](request) for kind in wanted}


def _claims(reference: str) -> tuple[str, ...]:
    return claims(reference) or (reference,)


def _classification(request: _RateRequest) -> Verdict:
    """Return whether the answer states all that the reference does and denies none of it.

    Of a reference that lists aliases, "USA / United States", one is enough.
    """
    reference = request.task.reference
    found = [_agrees(request, alias) for alias in aliases(reference)]
    return next((verdict for verdict in found if verdict.holds), found[-1])


def _agrees(request: _RateRequest, reference: str) -> Verdict:
    task, rules = request.task, request.rules
    question = frozenset(terms(task.question))
    answered = without_marks(task.answer)
    answer = Passage(answered)
    stated = Verdict(False, "the reference is empty")
    for text in _claims(reference):
        claim = Claim.of(text)
        stated = agrees(claim, answer, question, request.vectors, rules)
        if not stated.holds and not denies(claim, answer, question, rules):
            form = given_otherwise(reference, answered)
            stated = Verdict(True, form) if form else stated
        if not stated.holds:
            return stated
    other = Passage(reference)
    for text in claims(task.answer):
        if denied := denies(Claim.of(text), other, question, rules):
            return Verdict(False, f"the negation differs at {denied}")
    return stated


def _direct_relevance(request: _RateRequest) -> float:
    """Return the degree to which an answer addresses the question: 0, 0.25, 0.5, 0.75 or 1.

    The share of the question's content words that the answer holds, with vectors its mean with
    the cosine, to the nearest step. An answer that states nothing is at 0; a short one, which
    need not repeat the question, at 0.5 or above.
    """
    question, answer = request.task.question, request.task.answer
    if indistinct(answer):
        return 0.0
    asked, said = frozenset(terms(question)), Passage(answer)
    share = len(asked & said.index.keys()) / len(asked) if asked else 1.0
    cosine = request.vectors.best(question, said)
    if cosine is not None:
        share = (share + max(cosine, 0.0)) / 2
    if len(said.index) <= _SHORT:
        share = max(share, 0.5)
    return round(_STEPS * share) / _STEPS


def indistinct(text: str) -> bool:
    """Return whether a text states nothing: it is blank, asks, refuses, or only hedges.

    A hedged sentence counts as stating something when it names a name or a number.
    """
    found = claims(text)
    if not found or refusal(text) is not None:
        return True
    return all(_states_nothing(claim) for claim in found)


def _states_nothing(claim: str) -> bool:
    if _NO_ANSWER.search(claim):
        return True
    if not _HEDGE.search(claim):
        return False
    parts = Claim.of(claim)
    return not (parts.names or parts.unit.numbers)


RATE: Mapping[Finding, Callable[[_RateRequest], Any]] = {
    Finding.CLASSIFICATION: _classification,
    Finding.DIRECT_RELEVANCE: _direct_relevance,
}
"""Ratings that need no rubric."""
