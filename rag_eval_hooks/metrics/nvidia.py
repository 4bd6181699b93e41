"""The `nvidia` suite, 0 to 1: ratings by two independent templates each, averaged.

Source: Nvidia Metrics.
"""

from __future__ import annotations

from typing import Any

from rag_eval_hooks.findings import Finding, Findings, made
from rag_eval_hooks.metrics.formulas import mean_rating
from rag_eval_hooks.metrics.metric import Metric
from rag_eval_hooks.metrics.suites import metric
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import UNIT, Cause, NotScored, Outcome


def _metric(name: str, finding: Finding, steps: tuple[int, ...]) -> Metric:
    def score(_sample: Sample, findings: Findings) -> Outcome:
        ratings = made(getattr(findings, finding))
        value = mean_rating(ratings, steps)
        if value is None:
            return NotScored(Cause.JUDGE_FAILED, "neither rating is valid")
        rows: list[dict[str, Any]] = [
            {"template": number, "rating": rating, "valid": rating in steps}
            for number, rating in enumerate(ratings, start=1)
        ]
        both = all(row["valid"] for row in rows)
        return UNIT.score(
            value,
            warnings=() if both else ("only one of two ratings is valid",),
            explanation={"steps": list(steps), "ratings": rows},
        )

    return metric("nvidia", name, score)


METRICS: tuple[Metric, ...] = (
    _metric("answer_accuracy", Finding.ACCURACY_RATINGS, (0, 2, 4)),
    _metric("context_relevance", Finding.CONTEXT_RATINGS, (0, 1, 2)),
    _metric("response_groundedness", Finding.GROUNDEDNESS_RATINGS, (0, 1, 2)),
)
