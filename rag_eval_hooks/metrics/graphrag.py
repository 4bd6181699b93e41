"""The `graphrag` suite, 0 to 100: retrieval and answer, answer and reference, the answer's class.

Source: GraphRAG Evaluation Metrics, and the decisions of the metric specification
where it leaves a case open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from rag_eval_hooks.findings import Finding, Findings, Support, made
from rag_eval_hooks.metrics.composite import Composite
from rag_eval_hooks.metrics.explain import (
    chunk_rows,
    question_rows,
    require_sure,
    supported_share,
    sure_ones,
    unsure,
    within,
)
from rag_eval_hooks.metrics.formulas import average_precision, grade, mean, share
from rag_eval_hooks.metrics.metric import Field, Metric
from rag_eval_hooks.metrics.options import DontKnow, MetricOptions, dont_know_phrase
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored, Outcome, Scale

__all__ = ["CORRECT", "DONT_KNOW", "WRONG", "build"]

CORRECT: Final = "CORRECT"
WRONG: Final = "WRONG"
DONT_KNOW: Final = "DON'T KNOW"

_PERCENT = Scale(0.0, 100.0)


def _faithfulness(_sample: Sample, findings: Findings) -> Outcome:
    claims = made(findings.answer_claims)
    return _supported_share(claims, made(findings.answer_support), "the answer makes no claim")


def _context_recall(_sample: Sample, findings: Findings) -> Outcome:
    claims = made(findings.reference_claims)
    support = made(findings.reference_support)
    return _supported_share(claims, support, "the reference makes no claim")


def _supported_share(claims: Sequence[str], support: Sequence[Support], empty: str) -> Outcome:
    found = supported_share(claims, support, top=100.0)
    if found.value is None:
        return _PERCENT.score(100.0, explanation=found.explanation, warnings=(empty,))
    return _PERCENT.score(
        found.value, parts=found.parts, warnings=found.warnings, explanation=found.explanation
    )


def _precision(formula: Callable[[Sequence[bool]], float | None]) -> Callable[..., Outcome]:
    def score(_sample: Sample, findings: Findings) -> Outcome:
        relevance = made(findings.relevance)
        explanation = {"chunks": chunk_rows(relevance)}
        value = formula([chunk.useful for chunk in sure_ones(relevance, explanation)])
        # By the definition, retrieval that finds nothing has precision 0.
        value = 100 * (value or 0.0)
        return _PERCENT.score(value, warnings=unsure(relevance), explanation=explanation)

    return score


def _answer_relevance(sample: Sample, findings: Findings) -> Outcome:
    if _is_blank(sample.answer):
        return _PERCENT.score(0.0, explanation={"by": "the answer is blank"})
    if _has_no_questions(findings):
        degree = within(made(findings.direct_relevance), 0, 1)
        return _PERCENT.score(degree * 100, explanation={"by": "direct relevance"})
    questions = made(findings.questions)
    similarities = made(findings.question_similarity)
    rows = question_rows(questions.texts, similarities)
    percent = (mean(similarities) or 0.0) * 100
    explanation = {"by": "generated questions", "questions": rows}
    return _PERCENT.score(min(100.0, max(0.0, percent)), explanation=explanation)


def _answer_relevance_reads(sample: Sample, findings: Findings) -> frozenset[Finding]:
    if _is_blank(sample.answer):
        return frozenset()
    if findings.asked(Finding.QUESTIONS) and _has_no_questions(findings):
        return frozenset({Finding.QUESTIONS, Finding.DIRECT_RELEVANCE})
    return frozenset({Finding.QUESTIONS, Finding.QUESTION_SIMILARITY})


def _has_no_questions(findings: Findings) -> bool:
    """Return whether there are no questions: none was generated, or no source makes or embeds them.

    Questions that a judge failed to make are no reason to measure something else instead.
    """
    questions = findings.questions
    if isinstance(questions, NotScored):
        return questions.cause is Cause.MISSING_INPUT
    return not questions.texts


def _factual_accuracy(_sample: Sample, findings: Findings) -> Outcome:
    found = made(findings.geval)
    parts = {
        "correctness": within(found.correctness, 0, 100),
        "completeness": within(found.completeness, 0, 100),
        "consistency": within(found.consistency, 0, 100),
    }
    # In tenths, so that whole ratings give an exact value at the grades' borders.
    tenths = 5 * parts["correctness"] + 3 * parts["completeness"] + 2 * parts["consistency"]
    value = tenths / 10
    explanation = {
        "weights": {"correctness": 0.5, "completeness": 0.3, "consistency": 0.2},
        "reason": found.reason,
    }
    return _PERCENT.score(value, label=grade(value), parts=parts, explanation=explanation)


def _semantic_similarity(sample: Sample, findings: Findings) -> Outcome:
    if _is_blank(sample.answer) or _is_blank(sample.reference):
        return _PERCENT.score(0.0, explanation={"blank": True})
    cosine = made(findings.answer_similarity)
    value = round(min(1.0, max(0.0, cosine)) * 100, 2)
    return _PERCENT.score(value, explanation={"blank": False, "cosine": cosine})


def _bert_score(sample: Sample, findings: Findings) -> Outcome:
    if _is_blank(sample.answer) or _is_blank(sample.reference):
        return _PERCENT.score(0.0, explanation={"blank": True})
    found = made(findings.token_score)
    parts = {"precision": found.precision, "recall": found.recall, "f1": found.f1}
    # Rescaled with its baseline, a score can fall below 0.
    value = min(1.0, max(0.0, found.f1)) * 100
    warnings = ("an F1 below the baseline counts as 0",) if found.f1 < 0 else ()
    percentages = {name: number * 100 for name, number in parts.items()}
    return _PERCENT.score(value, parts=percentages, warnings=warnings, explanation={"blank": False})


def _answer_class(mode: DontKnow) -> Callable[[Sample, Findings], Outcome]:
    def score(sample: Sample, findings: Findings) -> Outcome:
        phrase = dont_know_phrase(sample.answer or "", mode)
        if phrase is not None:
            explanation = {"by": mode.value, "phrase": phrase}
            return _PERCENT.score(0.0, label=DONT_KNOW, explanation=explanation)
        verdict = made(findings.classification)
        if not verdict.sure:
            require_sure(0, 1, [verdict.reason], {"by": "judge", "reason": verdict.reason})
        return _PERCENT.score(
            100.0 * verdict.holds,
            label=CORRECT if verdict.holds else WRONG,
            explanation={"by": "judge", "reason": verdict.reason},
        )

    return score


def _class_reads(mode: DontKnow) -> Callable[[Sample, Findings], frozenset[Finding]]:
    def reads(sample: Sample, _findings: Findings) -> frozenset[Finding]:
        if dont_know_phrase(sample.answer or "", mode) is not None:
            return frozenset()
        return frozenset({Finding.CLASSIFICATION})

    return reads


def _is_blank(text: str | None) -> bool:
    return not (text or "").strip()


_PAIR = frozenset({Field.ANSWER, Field.REFERENCE})
_ALL_TEXTS = _PAIR | {Field.QUESTION}

_FAITHFULNESS = Metric(
    id="graphrag.ragas_faithfulness",
    score=_faithfulness,
    needs=frozenset({Field.ANSWER, Field.CONTEXTS}),
    findings=frozenset({Finding.ANSWER_CLAIMS, Finding.ANSWER_SUPPORT}),
    scale=_PERCENT,
    summary="Percentage of the answer's claims that the contexts support; 100 without a claim.",
    source="GraphRAG Evaluation Metrics, section 1",
)
_CONTEXT_RECALL = Metric(
    id="graphrag.ragas_context_recall",
    score=_context_recall,
    needs=frozenset({Field.CONTEXTS, Field.REFERENCE}),
    findings=frozenset({Finding.REFERENCE_CLAIMS, Finding.REFERENCE_SUPPORT}),
    scale=_PERCENT,
    summary="Percentage of the reference's claims that the contexts support; 100 without a claim.",
    source="GraphRAG Evaluation Metrics, section 3",
)
_ANSWER_RELEVANCE = Metric(
    id="graphrag.ragas_answer_relevance",
    score=_answer_relevance,
    needs=frozenset({Field.QUESTION, Field.ANSWER}),
    findings=frozenset({Finding.QUESTIONS, Finding.QUESTION_SIMILARITY, Finding.DIRECT_RELEVANCE}),
    reads=_answer_relevance_reads,
    scale=_PERCENT,
    summary=(
        "Mean cosine, in percent, of the question and three questions that the answer would "
        "answer; without such questions, how far the answer addresses the question."
    ),
    source="GraphRAG Evaluation Metrics, section 4",
)
_ANSWER_METRICS = (
    Metric(
        id="graphrag.factual_accuracy_percentage",
        score=_factual_accuracy,
        needs=_ALL_TEXTS,
        findings=frozenset({Finding.GEVAL}),
        scale=_PERCENT,
        summary=(
            "Half correctness, three tenths completeness, two tenths consistency with the "
            "reference; grades A to E."
        ),
        source="GraphRAG Evaluation Metrics, section 6",
    ),
    Metric(
        id="graphrag.semantic_similarity_percentage",
        score=_semantic_similarity,
        needs=_PAIR,
        findings=frozenset({Finding.ANSWER_SIMILARITY}),
        scale=_PERCENT,
        summary="Cosine of answer and reference, in percent, not below 0.",
        source="GraphRAG Evaluation Metrics, section 7",
    ),
    Metric(
        id="graphrag.bert_score_f1",
        score=_bert_score,
        needs=_PAIR,
        findings=frozenset({Finding.TOKEN_SCORE}),
        scale=_PERCENT,
        summary="BERTScore F1 of answer and reference, in percent: likeness token by token.",
        source="GraphRAG Evaluation Metrics, section 8; Zhang et al., BERTScore, ICLR 2020",
    ),
)


def build(options: MetricOptions) -> tuple[Metric, ...]:
    """Return the suite."""
    parts = {
        "faithfulness": _FAITHFULNESS,
        "context_precision": _context_precision(options.graphrag_rank_aware),
        "context_recall": _CONTEXT_RECALL,
        "answer_relevance": _ANSWER_RELEVANCE,
    }
    composite = Composite(parts, options.graphrag_weights, _PERCENT)
    score = Metric(
        id="graphrag.ragas_score",
        score=composite.score,
        needs=frozenset(),
        findings=composite.findings,
        reads=composite.reads,
        scale=_PERCENT,
        summary="Weighted mean of faithfulness, context precision and recall, answer relevance.",
        source="GraphRAG Evaluation Metrics, section 5",
    )
    return (*parts.values(), score, *_ANSWER_METRICS, _classification(options.dont_know))


def _context_precision(rank_aware: bool) -> Metric:
    return Metric(
        id="graphrag.ragas_context_precision",
        score=_precision(average_precision if rank_aware else share),
        needs=frozenset({Field.QUESTION, Field.CONTEXTS}),
        findings=frozenset({Finding.RELEVANCE}),
        scale=_PERCENT,
        summary=(
            "Rank-aware precision in percent: are the useful chunks the first ones."
            if rank_aware
            else "Percentage of the chunks that are useful for the question."
        ),
        source="GraphRAG Evaluation Metrics, section 2",
    )


def _classification(mode: DontKnow) -> Metric:
    return Metric(
        id="graphrag.answer_class",
        score=_answer_class(mode),
        needs=_ALL_TEXTS,
        findings=frozenset({Finding.CLASSIFICATION}),
        reads=_class_reads(mode),
        scale=_PERCENT,
        summary="CORRECT (100), WRONG or DON'T KNOW (0); the last is detected without a judge.",
        source="GraphRAG Evaluation Metrics, sections 9 to 11",
    )
