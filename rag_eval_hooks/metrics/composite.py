"""Metrics that are the weighted mean of other metrics of their suite."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.metrics.metric import Metric, missing_inputs
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored, Outcome, Scale, Score, Unavailable


def composite(
    parts: Mapping[str, Metric], weights: Mapping[str, float], scale: Scale
) -> dict[str, Any]:
    """Build `score`, `findings` and `reads` for a metric that averages other metrics.

    The mean excludes parts without a value, as the papers exclude NaN, and warns about these parts.
    If the judge is unsure about a part, the mean is undefined. Parts of weight 0 are not computed.
    """
    weighed = {name: part for name, part in parts.items() if weights.get(name, 0) > 0}

    def reads(sample: Sample, findings: Findings) -> frozenset[Finding]:
        fed = (part for part in weighed.values() if not part.missing(sample))
        return frozenset[Finding]().union(*(one.findings_for(sample, findings) for one in fed))

    def score(sample: Sample, findings: Findings) -> Outcome:
        outcomes = {name: _measure(part, sample, findings) for name, part in weighed.items()}
        named = {name: {"part": name, "metric": part.id} for name, part in weighed.items()}
        return _mean(outcomes, named, weights, scale)

    findings = frozenset[Finding]().union(*(part.findings for part in weighed.values()))
    return {"score": score, "findings": findings, "reads": reads}


def _mean(
    outcomes: Mapping[str, Outcome],
    named: Mapping[str, Mapping[str, str]],
    weights: Mapping[str, float],
    scale: Scale,
) -> Outcome:
    scores = {name: one for name, one in outcomes.items() if isinstance(one, Score)}
    absent = {name: one for name, one in outcomes.items() if isinstance(one, NotScored)}
    total = math.fsum(weights[name] for name in scores)
    shares = {name: weights[name] / total for name in scores}
    explanation = {
        "parts": [
            {**named[name], "value": one.value, "weight": weights[name], "share": shares[name]}
            for name, one in scores.items()
        ],
        "left_out": [{**named[name], "cause": one.cause.value} for name, one in absent.items()],
    }
    for name, one in absent.items():
        if one.undecided:
            detail = f"{name}: {one.detail}"
            return NotScored(one.cause, detail, undecided=True, explanation=explanation)
    if not scores:
        cause, detail = Cause.UNDEFINED, "no part has a value"
        if failures := [one.cause for one in absent.values() if one.cause.is_failure]:
            cause = failures[0]
            detail = "; ".join(f"{name}: {one.detail}" for name, one in absent.items())
        return NotScored(cause, detail, explanation=explanation)
    values = {name: one.value for name, one in scores.items()}
    mean = math.fsum(shares[name] * value for name, value in values.items())
    # Rounding must not leave the parts' range.
    mean = min(max(values.values()), max(min(values.values()), mean))
    warnings = [f"without {name} ({one.cause.value})" for name, one in absent.items()]
    warnings += [warning for one in scores.values() for warning in one.warnings]
    unique = tuple(dict.fromkeys(warnings))
    return scale.score(mean, parts=values, warnings=unique, explanation=explanation)


def _measure(metric: Metric, sample: Sample, findings: Findings) -> Outcome:
    try:
        return missing_inputs([metric], sample).get(metric.id) or metric.score(sample, findings)
    except Unavailable as absent:
        return absent.outcome
