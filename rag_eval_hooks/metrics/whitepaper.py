"""The suite `whitepaper`: correctness, faithfulness, precision, recall and relevance.

Scores are in [1, 5]. A share of supported claims or used chunks becomes the score 1 + 4 x share.

A text is indistinct if it makes no checkable statement. If the answer and the reference are both
indistinct, the judge compares the whole texts instead of claims.

Source: the document "RAG Answer Evaluation Framework".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from rag_eval_hooks.findings import Finding, Findings, Made, Rating, Stance, made
from rag_eval_hooks.metrics.formulas import (
    Whose,
    chunk_numbers,
    claim_rows,
    claims_of,
    composite,
    supported_share,
    sure_ones,
    within,
)
from rag_eval_hooks.metrics.metric import Metric, metric
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored, Outcome, Scale

_FIVE: Final = Scale(1.0, 5.0)
_UNVERIFIED: Final = _FIVE.score(5.0, parts={"raw": 1.0}, warnings=("No context to verify",))
_NOTHING_TO_COMPARE: Final = NotScored(
    Cause.MISSING_INPUT, "the answer makes no checkable statement, and the sample has no reference"
)
_TOGETHER: Final = "a chunk does not count if it supports a claim only together with other chunks"

_STANCE: Final = frozenset({Finding.STANCE})
_SUPPORT: Final = {"answer": Finding.ANSWER_SUPPORT, "reference": Finding.REFERENCE_SUPPORT}


def _rated(rating: Made[Rating], by: str) -> Outcome:
    found = made(rating)
    return _FIVE.score(within(found.value, _FIVE), explanation={"by": by, "reason": found.reason})


def _both_indistinct(sample: Sample, findings: Findings) -> bool:
    return sample.reference is not None and made(findings.stance) == Stance(True, True)


def _correctness(sample: Sample, findings: Findings) -> Outcome:
    if _both_indistinct(sample, findings):
        return _rated(findings.attitude, "attitude")
    return _rated(findings.correctness, "rubric")


def _correctness_reads(sample: Sample, findings: Findings) -> frozenset[Finding]:
    if not findings.asked(Finding.STANCE):
        return _STANCE
    is_vague = _both_indistinct(sample, findings)
    return _STANCE | {Finding.ATTITUDE if is_vague else Finding.CORRECTNESS}


def _faithfulness(sample: Sample, findings: Findings) -> Outcome:
    if not sample.contexts:
        return _UNVERIFIED
    if _both_indistinct(sample, findings):
        return _rated(findings.attitude, "attitude")
    return supported_share("answer", _FIVE, raw=True)(sample, findings)


def _faithfulness_reads(sample: Sample, findings: Findings) -> frozenset[Finding]:
    if not sample.contexts:
        return frozenset()
    if sample.reference is None:
        return frozenset({Finding.ANSWER_SUPPORT})
    if not findings.asked(Finding.STANCE):
        return _STANCE | {Finding.ANSWER_CLAIMS}
    is_vague = _both_indistinct(sample, findings)
    return _STANCE | {Finding.ATTITUDE if is_vague else Finding.ANSWER_SUPPORT}


def _whose_claims(sample: Sample, findings: Findings) -> Whose | None:
    if not made(findings.stance).answer:
        return "answer"
    return None if sample.reference is None else "reference"


def _recall(sample: Sample, findings: Findings) -> Outcome:
    if not sample.contexts:
        return _UNVERIFIED
    if (whose := _whose_claims(sample, findings)) is None:
        return _NOTHING_TO_COMPARE
    return supported_share(whose, _FIVE, raw=True)(sample, findings)


def _precision(sample: Sample, findings: Findings) -> Outcome:
    if not sample.contexts:
        return NotScored(Cause.UNDEFINED, "there is no context")
    if (whose := _whose_claims(sample, findings)) is None:
        return _NOTHING_TO_COMPARE
    claims, support = claims_of(findings, whose)
    if not claims:
        return NotScored(Cause.UNDEFINED, f"the {whose} makes no claim")
    rows = claim_rows(claims, support)
    counted, unsure = sure_ones(support, {"claims": rows})
    used = [any(flags) for flags in zip(*(found.by_chunk for found in counted), strict=True)]
    raw = sum(used) / len(used)
    together = any(found.together and not any(found.by_chunk) for found in counted)
    return _FIVE.score(
        1.0 + 4.0 * raw,
        parts={"raw": raw},
        warnings=(*((_TOGETHER,) if together else ()), *unsure),
        explanation={
            "by": f"claims of the {whose}",
            "used": chunk_numbers(used),
            "unused": chunk_numbers([not flag for flag in used]),
            "claims": rows,
        },
    )


def _chunks_reads(sample: Sample, findings: Findings) -> frozenset[Finding]:
    if not sample.contexts:
        return frozenset()
    if not findings.asked(Finding.STANCE):
        others = () if sample.reference is None else (Finding.REFERENCE_CLAIMS,)
        return _STANCE | {Finding.ANSWER_CLAIMS, *others}
    whose = _whose_claims(sample, findings)
    return _STANCE if whose is None else _STANCE | {_SUPPORT[whose]}


_metric = partial(metric, "whitepaper")
_PARTS: Final = {
    "correctness": _metric("correctness", _correctness, _correctness_reads),
    "faithfulness": _metric("faithfulness", _faithfulness, _faithfulness_reads),
    "precision": _metric("precision", _precision, _chunks_reads),
    "recall": _metric("recall", _recall, _chunks_reads),
    "relevance": _metric(
        "relevance", lambda _sample, findings: _rated(findings.alignment, "rubric")
    ),
}


def build(weights: Mapping[str, float]) -> tuple[Metric, ...]:
    mean = composite(_PARTS, weights, _FIVE)
    return (*_PARTS.values(), _metric("weighted_score", **mean))
