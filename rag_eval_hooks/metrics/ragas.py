"""The `ragas` suite, 0 to 1: metrics of retrieval and answer, over shared findings.

Source: RAGAS Metrics Guide, the RAGAS part of Evaluation Metrics Documentation, and the decisions
of the metric specification where these leave a case open.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rag_eval_hooks.findings import ChunkRelevance, Finding, Findings, Support, Verdict, made
from rag_eval_hooks.metrics.explain import (
    chunk_numbers,
    chunk_rows,
    question_rows,
    require_sure,
    supported_share,
    sure_ones,
    unsure,
)
from rag_eval_hooks.metrics.formulas import average_precision, mean, share
from rag_eval_hooks.metrics.metric import Field, Metric
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import UNIT, Cause, NotScored, Outcome, Scale
from rag_eval_hooks.text.refusals import refusal

__all__ = ["METRICS"]

_ERROR_RATE = Scale(0.0, 1.0, higher_is_better=False)
_ORIGINS: Final = ("relevant", "irrelevant", "unsupported")
_UNSURE: Final = "unsure"
_NO_PURPOSE: Final = NotScored(
    Cause.UNDEFINED, "the answer is a refusal: nothing says what a chunk would be useful for"
)


def _answer_relevancy(_sample: Sample, findings: Findings) -> Outcome:
    questions = made(findings.questions)
    if questions.noncommittal:
        return UNIT.score(0.0, explanation={"noncommittal": True})
    similarities = made(findings.question_similarity)
    value = mean(similarities)
    if value is None:
        return NotScored(Cause.UNDEFINED, "the answer answers no question")
    rows = question_rows(questions.texts, similarities)
    # A cosine can be below 0; the metric's range, and the scale of every viewer, is 0 to 1.
    explanation = {"noncommittal": False, "questions": rows}
    return UNIT.score(min(1.0, max(0.0, value)), explanation=explanation)


def _faithfulness(_sample: Sample, findings: Findings) -> Outcome:
    claims = made(findings.answer_claims)
    return _supported_share(claims, made(findings.answer_support), "the answer makes no claim")


def _context_recall(_sample: Sample, findings: Findings) -> Outcome:
    claims = made(findings.reference_claims)
    return _supported_share(
        claims, made(findings.reference_support), "the reference makes no claim"
    )


def _supported_share(claims: Sequence[str], support: Sequence[Support], empty: str) -> Outcome:
    found = supported_share(claims, support)
    if found.value is None:
        return NotScored(Cause.UNDEFINED, empty)
    return UNIT.score(
        found.value, parts=found.parts, warnings=found.warnings, explanation=found.explanation
    )


def _context_precision(sample: Sample, findings: Findings) -> Outcome:
    if sample.reference is None:
        return _precision_without_reference(sample, findings)
    return _ranked_precision(made(findings.relevance))


def _precision_without_reference(sample: Sample, findings: Findings) -> Outcome:
    if not _relevance_to_answer(sample, findings):
        return _NO_PURPOSE
    return _ranked_precision(made(findings.relevance_to_answer))


def _relevance(sample: Sample, _findings: Findings) -> frozenset[Finding]:
    if sample.reference is not None:
        return frozenset({Finding.RELEVANCE})
    return _relevance_to_answer(sample, _findings)


def _relevance_to_answer(sample: Sample, _findings: Findings) -> frozenset[Finding]:
    has_purpose = refusal(sample.answer or "") is None
    return frozenset({Finding.RELEVANCE_TO_ANSWER}) if has_purpose else frozenset()


def _ranked_precision(relevance: Sequence[ChunkRelevance]) -> Outcome:
    explanation = {"chunks": chunk_rows(relevance)}
    value = average_precision([chunk.useful for chunk in sure_ones(relevance, explanation)])
    if value is None:
        return NotScored(Cause.UNDEFINED, "retrieval found no chunk")
    return UNIT.score(value, warnings=unsure(relevance), explanation=explanation)


def _context_entity_recall(_sample: Sample, findings: Findings) -> Outcome:
    entities = made(findings.entities)
    found = made(findings.entities_found)
    rows = [
        {
            "entity": entity,
            "found": verdict.holds if verdict.sure else None,
            "reason": verdict.reason,
        }
        for entity, verdict in zip(entities, found, strict=True)
    ]
    value = share([verdict.holds for verdict in sure_ones(found, {"entities": rows})])
    if value is None:
        return NotScored(Cause.UNDEFINED, "the reference names no entity")
    return UNIT.score(value, warnings=unsure(found), explanation={"entities": rows})


def _noise_sensitivity(_sample: Sample, findings: Findings) -> Outcome:
    claims = made(findings.answer_claims)
    agreement = made(findings.answer_agreement)
    support = made(findings.answer_support)
    useful = [chunk.useful if chunk.sure else None for chunk in made(findings.relevance)]
    if not claims:
        return NotScored(Cause.UNDEFINED, "the answer makes no claim")
    kinds = [_error_kind(*verdicts, useful) for verdicts in zip(agreement, support, strict=True)]
    sure = [kind for kind in kinds if kind != _UNSURE]
    rows = [
        {
            "claim": claim,
            "correct": None if kind == _UNSURE else kind is None,
            "error": kind,
            "chunks": chunk_numbers(found.by_chunk),
            "reason": verdict.reason,
        }
        for claim, kind, found, verdict in zip(claims, kinds, support, agreement, strict=True)
    ]
    reasons = [one.reason for one in support if not one.sure]
    reasons += [one.reason for one in agreement if not one.sure]
    require_sure(len(sure), len(kinds), reasons, {"claims": rows})
    parts = {kind: sure.count(kind) / len(sure) for kind in _ORIGINS}
    wrong = len(sure) - sure.count(None)
    left = len(kinds) - len(sure)
    return _ERROR_RATE.score(
        wrong / len(sure),
        parts=parts,
        warnings=(f"{left} of {len(kinds)} are unsure and not counted",) if left else (),
        explanation={"claims": rows},
    )


def _error_kind(agreement: Verdict, support: Support, useful: Sequence[bool | None]) -> str | None:
    """Return the origin of a wrong claim, or None if the reference supports the claim.

    A claim that only several chunks support together came from relevant ones as soon as any
    chunk is relevant: the judge does not say which of them it drew on.
    """
    if agreement.sure and agreement.holds:
        return None
    if not (agreement.sure and support.sure):
        return _UNSURE
    if not support.supported:
        return "unsupported"
    by_chunk = support.by_chunk if any(support.by_chunk) else (True,) * len(useful)
    drawn_on = [use for has, use in zip(by_chunk, useful, strict=True) if has]
    if any(drawn_on):
        return "relevant"
    return _UNSURE if None in drawn_on else "irrelevant"


METRICS = (
    Metric(
        id="ragas.answer_relevancy",
        score=_answer_relevancy,
        needs=frozenset({Field.QUESTION, Field.ANSWER}),
        findings=frozenset({Finding.QUESTIONS, Finding.QUESTION_SIMILARITY}),
        summary="Mean cosine of the question and three questions that the answer would answer.",
        source="RAGAS Metrics Guide, section 1",
    ),
    Metric(
        id="ragas.faithfulness",
        score=_faithfulness,
        needs=frozenset({Field.ANSWER, Field.CONTEXTS}),
        findings=frozenset({Finding.ANSWER_CLAIMS, Finding.ANSWER_SUPPORT}),
        summary="Share of the answer's claims that the contexts support.",
        source="RAGAS Metrics Guide, section 2",
    ),
    Metric(
        id="ragas.context_precision",
        score=_context_precision,
        needs=frozenset({Field.QUESTION, Field.CONTEXTS}),
        findings=frozenset({Finding.RELEVANCE, Finding.RELEVANCE_TO_ANSWER}),
        reads=_relevance,
        summary="Rank-aware precision: are the useful chunks the first ones.",
        source="RAGAS Metrics Guide, section 3",
    ),
    Metric(
        id="ragas.context_precision_without_reference",
        score=_precision_without_reference,
        needs=frozenset({Field.QUESTION, Field.CONTEXTS, Field.ANSWER}),
        findings=frozenset({Finding.RELEVANCE_TO_ANSWER}),
        reads=_relevance_to_answer,
        summary="Rank-aware precision judged by the answer, also where there is a reference.",
        source="RAGAS Metrics Guide, section 3",
    ),
    Metric(
        id="ragas.context_recall",
        score=_context_recall,
        needs=frozenset({Field.CONTEXTS, Field.REFERENCE}),
        findings=frozenset({Finding.REFERENCE_CLAIMS, Finding.REFERENCE_SUPPORT}),
        summary="Share of the reference's claims that the contexts support.",
        source="RAGAS Metrics Guide, section 4",
    ),
    Metric(
        id="ragas.context_entity_recall",
        score=_context_entity_recall,
        needs=frozenset({Field.CONTEXTS, Field.REFERENCE}),
        findings=frozenset({Finding.ENTITIES, Finding.ENTITIES_FOUND}),
        summary="Share of the reference's names, dates, places and numbers in the contexts.",
        source="RAGAS Metrics Guide, section 5",
    ),
    Metric(
        id="ragas.noise_sensitivity",
        score=_noise_sensitivity,
        needs=frozenset({Field.QUESTION, Field.CONTEXTS, Field.ANSWER, Field.REFERENCE}),
        findings=frozenset(
            {
                Finding.ANSWER_CLAIMS,
                Finding.ANSWER_AGREEMENT,
                Finding.ANSWER_SUPPORT,
                Finding.RELEVANCE,
            }
        ),
        scale=_ERROR_RATE,
        summary="Share of the answer's claims that the reference does not support.",
        source="RAGAS Metrics Guide, section 6",
    ),
)
