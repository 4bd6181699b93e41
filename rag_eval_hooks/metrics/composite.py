"""Scores that are weighted means of other metrics of their suite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.metrics.formulas import weighted_mean
from rag_eval_hooks.metrics.metric import Metric
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored, Outcome, Scale, Score, Unavailable

__all__ = ["Composite"]


@dataclass(frozen=True, slots=True)
class Composite:
    """The weighted mean of those of its parts that have a value; the other weights grow.

    A part that has no value, because the sample lacks an input, the formula has none or the judge
    failed, is left out, as the sources do with NaN, and a warning says which. A part that the judge
    is unsure about makes the mean undefined.

    Attributes:
        parts: The metric of each part, all on one scale.
        weights: Weight by part, 0 or more. A part that weighs nothing is never measured.
        scale: The scale of the parts and of the mean.
    """

    parts: Mapping[str, Metric]
    weights: Mapping[str, float]
    scale: Scale

    @property
    def findings(self) -> frozenset[Finding]:
        """All that the weighed parts can read."""
        return _union(metric.findings for metric in self._weighed().values())

    def reads(self, sample: Sample, findings: Findings) -> frozenset[Finding]:
        """Return the findings that the parts read for which the sample has the inputs."""
        fed = (part for part in self._weighed().values() if not part.missing(sample))
        return _union(part.findings_for(sample, findings) for part in fed)

    def score(self, sample: Sample, findings: Findings) -> Outcome:
        """Return the mean, or the reason why there is none."""
        outcomes = {
            name: _measure(metric, sample, findings) for name, metric in self._weighed().items()
        }
        explanation = self._explanation(outcomes)
        absent = {name: got for name, got in outcomes.items() if isinstance(got, NotScored)}
        for name, got in absent.items():
            if got.undecided:
                detail = f"{name}: {got.detail}"
                return NotScored(got.cause, detail, undecided=True, explanation=explanation)
        scores = {name: got for name, got in outcomes.items() if isinstance(got, Score)}
        values = {name: score.value for name, score in scores.items()}
        mean = weighted_mean(values, self.weights)
        if mean is None:
            failed = (f"{name}: {got.detail}" for name, got in absent.items())
            causes = [got.cause for got in absent.values() if got.cause.is_failure]
            if causes:
                return NotScored(causes[0], "; ".join(failed), explanation=explanation)
            return NotScored(Cause.UNDEFINED, "no part has a value", explanation=explanation)
        warnings = [f"without {name} ({got.cause.value})" for name, got in absent.items()]
        warnings += [warning for score in scores.values() for warning in score.warnings]
        return self.scale.score(
            mean,
            parts=values,
            warnings=tuple(dict.fromkeys(warnings)),
            explanation=explanation,
        )

    def _weighed(self) -> Mapping[str, Metric]:
        return {name: part for name, part in self.parts.items() if self.weights.get(name, 0) > 0}

    def _explanation(self, outcomes: Mapping[str, Outcome]) -> Mapping[str, Any]:
        total = sum(self.weights[n] for n, got in outcomes.items() if isinstance(got, Score))
        return {
            "parts": [
                {
                    "part": name,
                    "metric": self.parts[name].id,
                    "value": got.value,
                    "weight": self.weights[name],
                    "share": self.weights[name] / total,
                }
                for name, got in outcomes.items()
                if isinstance(got, Score)
            ],
            "left_out": [
                {"part": name, "metric": self.parts[name].id, "cause": got.cause.value}
                for name, got in outcomes.items()
                if isinstance(got, NotScored)
            ],
        }


def _measure(metric: Metric, sample: Sample, findings: Findings) -> Outcome:
    lacking = metric.missing(sample)
    if lacking:
        return NotScored(Cause.MISSING_INPUT, "the sample has no " + ", ".join(lacking))
    try:
        return metric.score(sample, findings)
    except Unavailable as absent:
        return absent.outcome


def _union(kinds: Iterable[frozenset[Finding]]) -> frozenset[Finding]:
    return frozenset[Finding]().union(*kinds)
