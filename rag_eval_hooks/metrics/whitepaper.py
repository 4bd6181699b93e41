"""The `whitepaper` suite, 1 to 5: correctness, faithfulness, precision, recall, relevance.

A share in [0, 1] is put on the scale as 1 + 4 x share. A text is indistinct when it neither
states nor denies anything checkable; such texts are compared otherwise than by claims.

Source: RAG Answer Evaluation Framework, and the decisions of the metric specification
where it leaves a case open.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rag_eval_hooks.findings import Finding, Findings, Made, Rating, Support, made
from rag_eval_hooks.metrics.composite import Composite
from rag_eval_hooks.metrics.explain import (
    chunk_numbers,
    claim_rows,
    supported_share,
    sure_ones,
    unsure,
    within,
)
from rag_eval_hooks.metrics.formulas import one_to_five
from rag_eval_hooks.metrics.metric import Field, Metric
from rag_eval_hooks.metrics.options import MetricOptions
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored, Outcome, Scale

__all__ = ["build"]

_FIVE = Scale(1.0, 5.0)
_NO_CONTEXT: Final = "No context to verify"
_TOGETHER: Final = "claims that only several chunks support together count for no chunk"

_Kinds = frozenset[Finding]
_STANCE: _Kinds = frozenset({Finding.STANCE})
_CLAIMS: _Kinds = frozenset({Finding.ANSWER_CLAIMS})
_ANSWER_SUPPORT: _Kinds = _CLAIMS | {Finding.ANSWER_SUPPORT}
_REFERENCE_CLAIMS: _Kinds = frozenset({Finding.REFERENCE_CLAIMS})
_REFERENCE_SUPPORT: _Kinds = _REFERENCE_CLAIMS | {Finding.REFERENCE_SUPPORT}
_ATTITUDE: _Kinds = frozenset({Finding.ATTITUDE})


def _rated(rating: Made[Rating], by: str) -> Outcome:
    found = made(rating)
    value = within(found.value, 1, 5)
    return _FIVE.score(value, explanation={"by": by, "reason": found.reason})


def _both_indistinct(sample: Sample, findings: Findings) -> bool:
    if sample.reference is None:
        return False
    stance = made(findings.stance)
    return stance.answer and stance.reference


def _correctness(sample: Sample, findings: Findings) -> Outcome:
    if _both_indistinct(sample, findings):
        return _rated(findings.attitude, "attitude")
    return _rated(findings.correctness, "rubric")


def _correctness_reads(sample: Sample, findings: Findings) -> _Kinds:
    if not findings.asked(Finding.STANCE):
        return _STANCE
    is_vague = _both_indistinct(sample, findings)
    return _STANCE | (_ATTITUDE if is_vague else {Finding.CORRECTNESS})


def _faithfulness(sample: Sample, findings: Findings) -> Outcome:
    if not sample.contexts:
        return _unverified()
    if _both_indistinct(sample, findings):
        return _rated(findings.attitude, "attitude")
    return _supported(findings, of_reference=False)


def _faithfulness_reads(sample: Sample, findings: Findings) -> _Kinds:
    if not sample.contexts:
        return frozenset()
    if sample.reference is None:
        return _ANSWER_SUPPORT
    if not findings.asked(Finding.STANCE):
        return _STANCE | _CLAIMS
    return _STANCE | (_ATTITUDE if _both_indistinct(sample, findings) else _ANSWER_SUPPORT)


def _recall(sample: Sample, findings: Findings) -> Outcome:
    if not sample.contexts:
        return _unverified()
    indistinct = made(findings.stance).answer
    if indistinct and sample.reference is None:
        return _NOTHING_TO_COMPARE
    return _supported(findings, of_reference=indistinct)


def _precision(sample: Sample, findings: Findings) -> Outcome:
    if not sample.contexts:
        return NotScored(Cause.UNDEFINED, "there is no context")
    indistinct = made(findings.stance).answer
    if indistinct and sample.reference is None:
        return _NOTHING_TO_COMPARE
    claims, support = _claims(findings, of_reference=indistinct)
    whose = "reference" if indistinct else "answer"
    if not claims:
        return NotScored(Cause.UNDEFINED, f"the {whose} makes no claim")
    counted = sure_ones(support, {"claims": claim_rows(claims, support)})
    used = [any(flags) for flags in zip(*(found.by_chunk for found in counted), strict=True)]
    raw = sum(used) / len(used)
    together = any(found.together and not any(found.by_chunk) for found in counted)
    return _FIVE.score(
        one_to_five(raw),
        parts={"raw": raw},
        warnings=(*((_TOGETHER,) if together else ()), *unsure(support)),
        explanation={
            "by": f"claims of the {whose}",
            "used": chunk_numbers(used),
            "unused": chunk_numbers([not flag for flag in used]),
            "claims": claim_rows(claims, support),
        },
    )


def _chunks_reads(sample: Sample, findings: Findings) -> _Kinds:
    if not sample.contexts:
        return frozenset()
    has_reference = sample.reference is not None
    if not findings.asked(Finding.STANCE):
        return _STANCE | _CLAIMS | (_REFERENCE_CLAIMS if has_reference else frozenset())
    if not made(findings.stance).answer:
        return _STANCE | _ANSWER_SUPPORT
    return _STANCE | (_REFERENCE_SUPPORT if has_reference else frozenset())


def _relevance(_sample: Sample, findings: Findings) -> Outcome:
    return _rated(findings.alignment, "rubric")


_NOTHING_TO_COMPARE = NotScored(
    Cause.MISSING_INPUT, "the answer is indistinct, and the sample has no reference"
)


def _unverified() -> Outcome:
    return _FIVE.score(one_to_five(1.0), parts={"raw": 1.0}, warnings=(_NO_CONTEXT,))


def _claims(findings: Findings, *, of_reference: bool) -> tuple[Sequence[str], Sequence[Support]]:
    if of_reference:
        return made(findings.reference_claims), made(findings.reference_support)
    return made(findings.answer_claims), made(findings.answer_support)


def _supported(findings: Findings, *, of_reference: bool) -> Outcome:
    claims, support = _claims(findings, of_reference=of_reference)
    whose = "reference" if of_reference else "answer"
    found = supported_share(claims, support)
    if found.value is None:
        return NotScored(Cause.UNDEFINED, f"the {whose} makes no claim")
    return _FIVE.score(
        one_to_five(found.value),
        parts={"raw": found.value, **found.parts},
        warnings=found.warnings,
        explanation={"by": f"claims of the {whose}", **found.explanation},
    )


_CORRECTNESS = Metric(
    id="whitepaper.correctness",
    score=_correctness,
    needs=frozenset({Field.ANSWER, Field.REFERENCE}),
    findings=_STANCE | _ATTITUDE | {Finding.CORRECTNESS},
    reads=_correctness_reads,
    scale=_FIVE,
    summary="Rating of the answer against the reference; of their attitude when both are vague.",
    source="RAG Answer Evaluation Framework, section 1",
)
_FAITHFULNESS = Metric(
    id="whitepaper.faithfulness",
    score=_faithfulness,
    needs=frozenset({Field.ANSWER}),
    findings=_STANCE | _ATTITUDE | _ANSWER_SUPPORT,
    reads=_faithfulness_reads,
    scale=_FIVE,
    summary="Share of the answer's claims that the contexts support, as 1 + 4 x share.",
    source="RAG Answer Evaluation Framework, section 2",
)
_PRECISION = Metric(
    id="whitepaper.precision",
    score=_precision,
    needs=frozenset({Field.ANSWER}),
    findings=_STANCE | _ANSWER_SUPPORT | _REFERENCE_SUPPORT,
    reads=_chunks_reads,
    scale=_FIVE,
    summary="Share of the chunks that carry something of the answer, as 1 + 4 x share.",
    source="RAG Answer Evaluation Framework, section 3",
)
_RECALL = Metric(
    id="whitepaper.recall",
    score=_recall,
    needs=frozenset({Field.ANSWER}),
    findings=_STANCE | _ANSWER_SUPPORT | _REFERENCE_SUPPORT,
    reads=_chunks_reads,
    scale=_FIVE,
    summary="Share of the answer's claims that the contexts cover, as 1 + 4 x share.",
    source="RAG Answer Evaluation Framework, section 4",
)
_RELEVANCE = Metric(
    id="whitepaper.relevance",
    score=_relevance,
    needs=frozenset({Field.QUESTION, Field.ANSWER}),
    findings=frozenset({Finding.ALIGNMENT}),
    scale=_FIVE,
    summary="Rating of the answer against the question; low for an indistinct answer.",
    source="RAG Answer Evaluation Framework, section 5",
)


def build(options: MetricOptions) -> tuple[Metric, ...]:
    """Return the suite."""
    parts = {
        "correctness": _CORRECTNESS,
        "faithfulness": _FAITHFULNESS,
        "precision": _PRECISION,
        "recall": _RECALL,
        "relevance": _RELEVANCE,
    }
    composite = Composite(parts, options.whitepaper_weights, _FIVE)
    score = Metric(
        id="whitepaper.weighted_score",
        score=composite.score,
        needs=frozenset({Field.ANSWER}),
        findings=composite.findings,
        reads=composite.reads,
        scale=_FIVE,
        summary="Weighted mean of correctness, faithfulness, precision, recall and relevance.",
        source="RAG Answer Evaluation Framework, summary table",
    )
    return (*parts.values(), score)
