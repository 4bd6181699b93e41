"""The suite `nvidia`: metrics that average two ratings by a judge. Scores are in [0, 1].

Source: the document "Nvidia Metrics".
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from rag_eval_hooks.findings import Finding, Findings, made
from rag_eval_hooks.metrics.metric import Metric, metric
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import UNIT, Cause, NotScored, Outcome


def _metric(name: str, finding: Finding, steps: tuple[int, ...]) -> Metric:
    def score(_sample: Sample, findings: Findings) -> Outcome:
        ratings: Sequence[int | None] = made(getattr(findings, finding))
        # A rating that the prompt does not offer is invalid.
        valid = [one / max(steps) for one in ratings if one is not None and one in steps]
        if not valid:
            return NotScored(Cause.JUDGE_FAILED, "neither rating is valid")
        rows = [
            {"template": number, "rating": rating, "valid": rating in steps}
            for number, rating in enumerate(ratings, start=1)
        ]
        is_half = len(valid) < len(ratings)
        return UNIT.score(
            fmean(valid),
            warnings=("only one of two ratings is valid",) if is_half else (),
            explanation={"steps": list(steps), "ratings": rows},
        )

    return metric("nvidia", name, score)


METRICS: tuple[Metric, ...] = (
    _metric("answer_accuracy", Finding.ACCURACY_RATINGS, (0, 2, 4)),
    _metric("context_relevance", Finding.CONTEXT_RATINGS, (0, 1, 2)),
    _metric("response_groundedness", Finding.GROUNDEDNESS_RATINGS, (0, 1, 2)),
)
