"""The suite `graphrag`: metrics of the answer, with scores in [0, 100].

Source: the document "GraphRAG Evaluation Metrics".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from functools import partial
from statistics import fmean
from typing import Final

from rag_eval_hooks.findings import Finding, Findings, made
from rag_eval_hooks.metrics.formulas import (
    Formula,
    average_precision,
    chunk_precision,
    composite,
    mean_similarity,
    require_sure,
    supported_share,
    within,
)
from rag_eval_hooks.metrics.metric import SUITES, Metric, metric
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import UNIT, Cause, NotScored, Outcome, Scale
from rag_eval_hooks.text.refusals import refusal

_PERCENT: Final = Scale(0.0, 100.0)
_RANK_AWARE: Final = (
    "Average precision of the ranked chunks, in percent. The value is 100 if all useful chunks "
    "come first."
)
_GRADES: Final = {"A": 80.0, "B": 60.0, "C": 40.0, "D": 20.0}
_SHORT: Final = 10  # In an answer shorter than 10 characters, each of these words means DON'T KNOW.
_SHORT_WORDS: Final = ("unknown", "n/a", "none", "null")
_WEIGHTS: Final = {"correctness": 0.5, "completeness": 0.3, "consistency": 0.2}


class DontKnow(StrEnum):
    PHRASES = "phrases"  # a phrase from the metric's definition appears anywhere in the answer
    REFUSAL = "refusal"  # the entire answer is a refusal; a phrase alone is not enough


def dont_know_phrase(answer: str, mode: DontKnow) -> str | None:
    if mode is DontKnow.REFUSAL:
        return refusal(answer)
    text = answer.lower().strip()
    phrases = (*SUITES["graphrag"]["dont_know"], *(_SHORT_WORDS if len(text) < _SHORT else ()))
    return next((phrase for phrase in phrases if phrase in text), None)


def _precision(_sample: Sample, findings: Findings, formula: Formula) -> Outcome:
    return chunk_precision(made(findings.relevance), formula, _PERCENT, empty=0.0)


def _answer_relevance(sample: Sample, findings: Findings) -> Outcome:
    if _is_blank(sample.answer):
        return _PERCENT.score(0.0, explanation={"by": "the answer is blank"})
    if _has_no_questions(findings):
        degree = within(made(findings.direct_relevance), UNIT)
        return _PERCENT.score(degree * 100, explanation={"by": "direct relevance"})
    value, rows = mean_similarity(findings)
    explanation = {"by": "generated questions", "questions": rows}
    return _PERCENT.score(100 * (value or 0.0), explanation=explanation)


def _answer_relevance_reads(sample: Sample, findings: Findings) -> frozenset[Finding]:
    if _is_blank(sample.answer):
        return frozenset()
    if findings.asked(Finding.QUESTIONS) and _has_no_questions(findings):
        return frozenset({Finding.QUESTIONS, Finding.DIRECT_RELEVANCE})
    return frozenset({Finding.QUESTIONS, Finding.QUESTION_SIMILARITY})


def _has_no_questions(findings: Findings) -> bool:
    questions = findings.questions
    if isinstance(questions, NotScored):
        return questions.cause is Cause.MISSING_INPUT
    return not questions.texts


def _factual_accuracy(_sample: Sample, findings: Findings) -> Outcome:
    found = made(findings.geval)
    parts = {name: within(getattr(found, name), _PERCENT) for name in _WEIGHTS}
    # Integer weights keep the sum exact at the grade boundaries.
    value = sum(round(10 * weight) * parts[name] for name, weight in _WEIGHTS.items()) / 10
    label = next((letter for letter, least in _GRADES.items() if value >= least), "E")
    explanation = {"weights": _WEIGHTS, "reason": found.reason}
    return _PERCENT.score(value, label=label, parts=parts, explanation=explanation)


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
    parts = {name: 100 * getattr(found, name) for name in ("precision", "recall", "f1")}
    value = min(1.0, max(0.0, found.f1)) * 100
    warnings = ("a negative F1 counts as 0",) if found.f1 < 0 else ()
    return _PERCENT.score(value, parts=parts, warnings=warnings, explanation={"blank": False})


def _answer_class(sample: Sample, findings: Findings, mode: DontKnow) -> Outcome:
    phrase = dont_know_phrase(sample.answer or "", mode)
    if phrase is not None:
        explanation = {"by": mode.value, "phrase": phrase}
        return _PERCENT.score(0.0, label="DON'T KNOW", explanation=explanation)
    verdict = made(findings.classification)
    explanation = {"by": "judge", "reason": verdict.reason}
    require_sure([verdict.sure], [verdict.reason], explanation)
    label = "CORRECT" if verdict.holds else "WRONG"
    return _PERCENT.score(100.0 * verdict.holds, label=label, explanation=explanation)


def _class_reads(sample: Sample, _findings: Findings, mode: DontKnow) -> frozenset[Finding]:
    is_known = dont_know_phrase(sample.answer or "", mode) is not None
    return frozenset() if is_known else frozenset({Finding.CLASSIFICATION})


def _is_blank(text: str | None) -> bool:
    return not (text or "").strip()


_metric = partial(metric, "graphrag")


def build(weights: Mapping[str, float], mode: DontKnow, *, rank_aware: bool) -> tuple[Metric, ...]:
    formula: Formula = average_precision if rank_aware else fmean
    precision = _metric("ragas_context_precision", partial(_precision, formula=formula))
    recall = supported_share("reference", _PERCENT, empty=100.0)
    parts = {
        "faithfulness": _metric(
            "ragas_faithfulness", supported_share("answer", _PERCENT, empty=100.0)
        ),
        "context_precision": replace(precision, summary=_RANK_AWARE) if rank_aware else precision,
        "context_recall": _metric("ragas_context_recall", recall),
        "answer_relevance": _metric(
            "ragas_answer_relevance", _answer_relevance, _answer_relevance_reads
        ),
    }
    return (
        *parts.values(),
        _metric("ragas_score", **composite(parts, weights, _PERCENT)),
        _metric("factual_accuracy_percentage", _factual_accuracy),
        _metric("semantic_similarity_percentage", _semantic_similarity),
        _metric("bert_score_f1", _bert_score),
        _metric(
            "answer_class", partial(_answer_class, mode=mode), partial(_class_reads, mode=mode)
        ),
    )
