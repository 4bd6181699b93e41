"""The suite `ragas`: metrics of retrieval and of the answer.

Scores are in [0, 1]. Sources: "RAGAS Metrics Guide", and the RAGAS part of "Evaluation Metrics
Documentation".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from rag_eval_hooks.findings import Finding, Findings, Support, Verdict, made
from rag_eval_hooks.metrics.formulas import (
    average_precision,
    chunk_numbers,
    chunk_precision,
    flaws,
    mean_similarity,
    require_sure,
    supported_share,
    sure_ones,
)
from rag_eval_hooks.metrics.metric import Metric, metric
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import UNIT, Cause, NotScored, Outcome, Scale
from rag_eval_hooks.text.refusals import refusal

_ERROR_RATE: Final = Scale(0.0, 1.0, higher_is_better=False)
_ORIGINS: Final = ("relevant", "irrelevant", "unsupported")
_UNSURE: Final = "unsure"
_NO_PURPOSE: Final = NotScored(
    Cause.UNDEFINED, "the answer is a refusal, so the usefulness of a chunk is unknown"
)


def _answer_relevancy(_sample: Sample, findings: Findings) -> Outcome:
    if made(findings.questions).noncommittal:
        return UNIT.score(0.0, explanation={"noncommittal": True})
    value, rows = mean_similarity(findings)
    if value is None:
        return NotScored(Cause.UNDEFINED, "the judge generated no question from the answer")
    return UNIT.score(value, explanation={"noncommittal": False, "questions": rows})


def _context_precision(sample: Sample, findings: Findings) -> Outcome:
    if sample.reference is None:
        return _precision_without_reference(sample, findings)
    return chunk_precision(made(findings.relevance), average_precision, UNIT)


def _precision_without_reference(sample: Sample, findings: Findings) -> Outcome:
    if not _relevance_to_answer(sample, findings):
        return _NO_PURPOSE
    return chunk_precision(made(findings.relevance_to_answer), average_precision, UNIT)


def _relevance(sample: Sample, findings: Findings) -> frozenset[Finding]:
    if sample.reference is not None:
        return frozenset({Finding.RELEVANCE})
    return _relevance_to_answer(sample, findings)


def _relevance_to_answer(sample: Sample, _findings: Findings) -> frozenset[Finding]:
    has_purpose = refusal(sample.answer or "") is None
    return frozenset({Finding.RELEVANCE_TO_ANSWER}) if has_purpose else frozenset()


def _context_entity_recall(_sample: Sample, findings: Findings) -> Outcome:
    found = made(findings.entities_found)
    rows = [
        {"entity": entity, "found": one.holds if one.sure else None, "reason": one.reason}
        for entity, one in zip(made(findings.entities), found, strict=True)
    ]
    if not found:
        return NotScored(Cause.UNDEFINED, "the reference names no entity")
    sure, warnings = sure_ones(found, {"entities": rows})
    value = sum(verdict.holds for verdict in sure) / len(sure)
    return UNIT.score(value, warnings=warnings, explanation={"entities": rows})


def _noise_sensitivity(_sample: Sample, findings: Findings) -> Outcome:
    claims = made(findings.answer_claims)
    agreements, supports = made(findings.answer_agreement), made(findings.answer_support)
    useful = [chunk.useful if chunk.sure else None for chunk in made(findings.relevance)]
    if not claims:
        return NotScored(Cause.UNDEFINED, "the answer makes no claim")
    verdicts = list(zip(agreements, supports, strict=True))
    kinds = [_error_kind(agreement, support, useful) for agreement, support in verdicts]
    rows = [
        {
            "claim": claim,
            "correct": None if kind == _UNSURE else kind is None,
            "error": kind,
            "chunks": chunk_numbers(support.by_chunk),
            "reason": agreement.reason,
        }
        for claim, kind, (agreement, support) in zip(claims, kinds, verdicts, strict=True)
    ]
    reasons = [support.reason for support in supports if not support.sure]
    reasons += [agreement.reason for agreement in agreements if not agreement.sure]
    is_sure = [kind != _UNSURE for kind in kinds]
    unsure = require_sure(is_sure, reasons, {"claims": rows})
    count = sum(is_sure)
    return _ERROR_RATE.score(
        (count - kinds.count(None)) / count,
        parts={kind: kinds.count(kind) / count for kind in _ORIGINS},
        warnings=(*unsure, *flaws(supports), *flaws(agreements)),
        explanation={"claims": rows},
    )


def _error_kind(agreement: Verdict, support: Support, useful: Sequence[bool | None]) -> str | None:
    if agreement.sure and agreement.holds:
        return None
    if not (agreement.sure and support.sure):
        return _UNSURE
    if not support.supported:
        return "unsupported"
    # If only several chunks together support the claim, the judge names no chunk.
    by_chunk = support.by_chunk if any(support.by_chunk) else (True,) * len(useful)
    drawn_on = [use for has, use in zip(by_chunk, useful, strict=True) if has]
    if any(drawn_on):
        return "relevant"
    return _UNSURE if None in drawn_on else "irrelevant"


_metric = partial(metric, "ragas")

METRICS: tuple[Metric, ...] = (
    _metric("answer_relevancy", _answer_relevancy),
    _metric("faithfulness", supported_share("answer", UNIT)),
    _metric("context_precision", _context_precision, _relevance),
    _metric(
        "context_precision_without_reference", _precision_without_reference, _relevance_to_answer
    ),
    _metric("context_recall", supported_share("reference", UNIT)),
    _metric("context_entity_recall", _context_entity_recall),
    _metric("noise_sensitivity", _noise_sensitivity),
)
