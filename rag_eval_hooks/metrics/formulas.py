"""Functions that all suites share, for fractions, means, composite scores and explanations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any, Final, Literal, TypeAlias, TypeVar

from rag_eval_hooks.findings import (
    CUT,
    UNREAD,
    ChunkRelevance,
    ClaimVerdict,
    Finding,
    Findings,
    Support,
    Verdict,
    made,
)
from rag_eval_hooks.metrics.metric import Metric, missing_inputs
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored, Outcome, Scale, Score, Unavailable

Whose: TypeAlias = Literal["answer", "reference"]
Formula: TypeAlias = Callable[[Sequence[bool]], float]
Scoring: TypeAlias = Callable[[Sample, Findings], Outcome]
V = TypeVar("V", Support, Verdict, ChunkRelevance)

_OUTSIDE: Final = NotScored(Cause.JUDGE_FAILED, "the judge's rating is outside the rating scale")
_DETAILS: Final = {  # why a metric is undefined, by the reason of the unsure verdicts
    CUT: "the sample was cut (see max_text_chars), and the kept part is not enough to decide {}",
    UNREAD: "the judge gave no readable verdict for {}",
    "": "the judge is unsure about {}",
}


def average_precision(relevant: Sequence[bool]) -> float:
    ranks = chunk_numbers(relevant)
    return fmean(hits / rank for hits, rank in enumerate(ranks, start=1)) if ranks else 0.0


def cosine(left: Sequence[float], right: Sequence[float]) -> float | None:
    norms = math.hypot(*left) * math.hypot(*right)
    # Comparisons with NaN are False, so clamping would return 1.
    if norms == 0 or not math.isfinite(norms):
        return None
    dot = math.fsum(a * b for a, b in zip(left, right, strict=True))
    return max(-1.0, min(1.0, dot / norms))


def claims_of(findings: Findings, whose: Whose) -> tuple[Sequence[str], Sequence[Support]]:
    claims, support = getattr(findings, f"{whose}_claims"), getattr(findings, f"{whose}_support")
    return made(claims), made(support)


def supported_share(
    whose: Whose, scale: Scale, *, raw: bool = False, empty: float | None = None
) -> Scoring:
    top = 1.0 if raw else scale.high

    def score(_sample: Sample, findings: Findings) -> Outcome:
        claims, support = claims_of(findings, whose)
        by = {"by": f"claims of the {whose}"} if raw else {}
        explanation = {**by, "claims": claim_rows(claims, support)}
        if not claims:
            note = f"the {whose} makes no claim"
            if empty is None:
                return NotScored(Cause.UNDEFINED, note)
            return scale.score(empty, warnings=(note,), explanation=explanation)
        kept, warnings = sure_ones(support, explanation)
        sure = [found.verdict for found in kept]
        parts = {kind.value: top * sure.count(kind) / len(sure) for kind in ClaimVerdict}
        parts["unsure"] = top * (len(support) - len(sure)) / len(support)
        share = parts.pop("supported")
        return scale.score(
            scale.low + (scale.high - scale.low) / top * share,
            parts={"raw": share, **parts} if raw else parts,
            warnings=warnings,
            explanation=explanation,
        )

    return score


def chunk_precision(
    relevance: Sequence[ChunkRelevance], formula: Formula, scale: Scale, empty: float | None = None
) -> Outcome:
    rows = [
        {
            "chunk": number,
            "useful": chunk.useful if chunk.sure else None,
            "rating": chunk.rating if chunk.sure else None,
            "reason": chunk.reason,
        }
        for number, chunk in enumerate(relevance, start=1)
    ]
    sure, warnings = sure_ones(relevance, {"chunks": rows})
    value = formula([chunk.useful for chunk in sure]) if sure else empty
    if value is None:
        return NotScored(Cause.UNDEFINED, "retrieval found no chunk")
    return scale.score(scale.high * value, warnings=warnings, explanation={"chunks": rows})


def sure_ones(
    verdicts: Sequence[V], explanation: Mapping[str, Any]
) -> tuple[list[V], tuple[str, ...]]:
    reasons = [one.reason for one in verdicts if not one.sure]
    unsure: tuple[str, ...] = require_sure([one.sure for one in verdicts], reasons, explanation)
    return [one for one in verdicts if one.sure], (*unsure, *flaws(verdicts))


def require_sure(
    sure: Sequence[bool], reasons: Sequence[str], explanation: Mapping[str, Any]
) -> tuple[str, ...]:
    # If over a third of the verdicts are unsure, a score would say too little.
    unsure = f"{len(sure) - sum(sure)} of {len(sure)}"
    if 3 * sum(sure) < 2 * len(sure):
        known = next((reason for reason in reasons if reason in _DETAILS), "")
        detail = _DETAILS[known].format(f"{unsure} items")
        raise Unavailable(
            NotScored(Cause.UNDEFINED, detail, undecided=True, explanation=explanation)
        )
    return () if all(sure) else (f"{unsure} verdicts are unsure and do not count",)


def flaws(verdicts: Sequence[Support | Verdict | ChunkRelevance]) -> tuple[str, ...]:
    warned = [text for one in verdicts if (text := getattr(one, "warning", ""))]
    counted = (f"{text} ({warned.count(text)} of {len(verdicts)})" for text in warned)
    return tuple(dict.fromkeys(counted))


def claim_rows(claims: Sequence[str], support: Sequence[Support]) -> list[Mapping[str, Any]]:
    return [
        {
            "claim": claim,
            "supported": found.supported if found.sure else None,
            "verdict": found.verdict.value,
            "chunks": chunk_numbers(found.by_chunk),
            "together": found.together,
            "quote": found.quote,
            "reason": found.reason,
            "probability": found.probability,
            **({"warning": found.warning} if found.warning else {}),
            **({"judge": found.judge, "sent_on": found.sent_on} if found.judge else {}),
        }
        for claim, found in zip(claims, support, strict=True)
    ]


def chunk_numbers(flags: Sequence[bool]) -> list[int]:
    return [number for number, flag in enumerate(flags, start=1) if flag]


def mean_similarity(findings: Findings) -> tuple[float | None, list[dict[str, Any]]]:
    texts, cosines = made(findings.questions).texts, made(findings.question_similarity)
    pairs = zip(texts, cosines, strict=True)
    rows = [{"question": text, "similarity": cosine} for text, cosine in pairs]
    return min(1.0, max(0.0, fmean(cosines))) if cosines else None, rows


def within(value: float, scale: Scale) -> float:
    if not scale.low <= value <= scale.high:
        raise Unavailable(_OUTSIDE)
    return float(value)


def composite(
    parts: Mapping[str, Metric], weights: Mapping[str, float], scale: Scale
) -> dict[str, Any]:
    """Return the fields of a `Metric` that is the weighted mean of the metrics in `parts`."""
    weighed = {name: part for name, part in parts.items() if weights.get(name, 0) > 0}

    def reads(sample: Sample, findings: Findings) -> frozenset[Finding]:
        fed = (part for part in weighed.values() if not part.missing(sample))
        return frozenset[Finding]().union(*(one.findings_for(sample, findings) for one in fed))

    def score(sample: Sample, findings: Findings) -> Outcome:
        outcomes = {name: _measure(part, sample, findings) for name, part in weighed.items()}
        return _weighted_mean(outcomes, weighed, weights, scale)

    findings = frozenset[Finding]().union(*(part.findings for part in weighed.values()))
    return {"score": score, "findings": findings, "reads": reads}


def _weighted_mean(
    outcomes: Mapping[str, Outcome],
    parts: Mapping[str, Metric],
    weights: Mapping[str, float],
    scale: Scale,
) -> Outcome:
    scores = {name: one for name, one in outcomes.items() if isinstance(one, Score)}
    absent = {name: one for name, one in outcomes.items() if isinstance(one, NotScored)}
    total = math.fsum(weights[name] for name in scores)
    shares = {name: weights[name] / total for name in scores}
    named = {name: {"part": name, "metric": part.id} for name, part in parts.items()}
    explanation = {
        "parts": [
            {**named[name], "value": one.value, "weight": weights[name], "share": shares[name]}
            for name, one in scores.items()
        ],
        "left_out": [{**named[name], "cause": one.cause.value} for name, one in absent.items()],
    }
    undecided = {name: one for name, one in absent.items() if one.undecided}
    if undecided or not scores:
        failed = undecided or {name: one for name, one in absent.items() if one.cause.is_failure}
        cause = next((one.cause for one in failed.values()), Cause.UNDEFINED)
        detail = "; ".join(f"{name}: {one.detail}" for name, one in failed.items())
        detail = detail or "none of the combined metrics has a value"
        return NotScored(cause, detail, undecided=bool(undecided), explanation=explanation)
    values = {name: one.value for name, one in scores.items()}
    weighed = math.fsum(shares[name] * value for name, value in values.items())
    # Rounding must not move the mean outside the parts' range.
    value = min(max(values.values()), max(min(values.values()), weighed))
    warnings = [f"without {name} ({one.cause.value})" for name, one in absent.items()]
    warnings += [warning for one in scores.values() for warning in one.warnings]
    unique = tuple(dict.fromkeys(warnings))
    return scale.score(value, parts=values, warnings=unique, explanation=explanation)


def _measure(metric: Metric, sample: Sample, findings: Findings) -> Outcome:
    try:
        return missing_inputs([metric], sample).get(metric.id) or metric.score(sample, findings)
    except Unavailable as absent:
        return absent.outcome
