"""Fits a judge's probabilities to human labels, and measures how well judge and labels agree."""

from __future__ import annotations

import json
import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Final

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.findings import ClaimVerdict, Support

SCHEMA: Final = "rag-eval-hooks.calibration/1"
LEAST_AUROC: Final = 0.6
LEAST_LABELS: Final = 50
_STEPS: Final = 50
_BINS: Final = 10
_EDGE: Final = 1e-4
_RIDGE: Final = 0.1  # weight of the prior; with few labels, the fit stays close to the prior


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A linear map from a judge's log odds to calibrated log odds (Platt scaling, 1999)."""

    slope: float = 1.0
    intercept: float = 0.0
    cut: float = 0.5
    judge: str = ""  # name and version
    labels: int = 0
    auroc: float = 0.5

    def apply(self, probability: float) -> float:
        return sigmoid(self.slope * log_odds(probability) + self.intercept)

    def judged(self, support: Support) -> Support:
        if support.probability is None:
            return support
        probability = self.apply(support.probability)
        holds = probability >= self.cut
        if support.verdict is ClaimVerdict.CONTRADICTED or (holds and support.supported):
            return replace(support, probability=probability)
        return replace(
            support,
            by_chunk=(False,) * len(support.by_chunk),
            together=holds,
            verdict=ClaimVerdict.SUPPORTED if holds else ClaimVerdict.NOT_STATED,
            reason=f"{support.reason}; the calibrated probability is {probability:.2f}",
            probability=probability,
        )

    @property
    def label(self) -> str:
        return f"calibrated n={self.labels}, AUROC {self.auroc:.2f}"

    def write(self, path: Path) -> None:
        path.write_text(json.dumps({"schema": SCHEMA, **asdict(self)}, indent=2) + "\n", "utf-8")

    @classmethod
    def read(cls, path: Path) -> Calibration:
        try:
            values = json.loads(path.read_text("utf-8"))
            if values.pop("schema") != SCHEMA:
                raise ValueError(path)
            return cls(**values)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            wants = f"a file that `rag-eval-hooks calibrate` wrote ({type(error).__name__})"
            raise ConfigError("calibration", str(path), wants) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    labels: int
    positive: float
    auroc: float
    low: float  # `low` and `high` bound the 95 % interval of `auroc` (Hanley and McNeil 1982)
    high: float
    cut: float
    balanced_accuracy: float
    curve: tuple[tuple[float, float, int], ...]  # of each bin: mean, fraction of true, count


def agreement(probabilities: Sequence[float], labels: Sequence[bool]) -> Agreement:
    pairs = sorted(zip(probabilities, labels, strict=True))
    positives, negatives = ([p for p, label in pairs if label is kind] for kind in (True, False))
    if not positives or not negatives:
        raise ValueError("The labels must include both true and false labels.")

    def accuracy(cut: float) -> float:
        hits = 1 - bisect_left(positives, cut) / len(positives)
        return (hits + bisect_left(negatives, cut) / len(negatives)) / 2

    wins = sum(bisect_left(negatives, p) + bisect_right(negatives, p) for p in positives) / 2
    auroc = wins / (len(positives) * len(negatives))
    half = 1.96 * _auroc_error(auroc, len(positives), len(negatives))
    cut = max(sorted({*probabilities, 1.0}), key=accuracy)
    bins = min(_BINS, max(1, len(pairs) // 10))
    parts = [pairs[len(pairs) * i // bins : len(pairs) * (i + 1) // bins] for i in range(bins)]
    return Agreement(
        labels=len(labels),
        positive=len(positives) / len(labels),
        auroc=auroc,
        low=max(0.0, auroc - half),
        high=min(1.0, auroc + half),
        cut=cut,
        balanced_accuracy=accuracy(cut),
        curve=tuple((fmean(p for p, _ in x), fmean(y for _, y in x), len(x)) for x in parts),
    )


def _auroc_error(auroc: float, positives: int, negatives: int) -> float:
    q1, q2 = auroc / (2 - auroc), 2 * auroc * auroc / (1 + auroc)
    spread = auroc * (1 - auroc) + (positives - 1) * (q1 - auroc**2)
    spread += (negatives - 1) * (q2 - auroc**2)
    return math.sqrt(max(spread, 0.0) / (positives * negatives))


def fitted(probabilities: Sequence[float], labels: Sequence[bool]) -> Calibration:
    odds = [log_odds(p) for p in probabilities]
    slope, intercept = 1.0, 0.0
    for _ in range(_STEPS):
        a, b, d = _RIDGE, 0.0, _RIDGE
        by_slope, by_intercept = _RIDGE * (slope - 1), _RIDGE * intercept
        for x, label in zip(odds, labels, strict=True):
            p = sigmoid(slope * x + intercept)
            weight, miss = p * (1 - p), p - label
            a, b, d = a + weight * x * x, b + weight * x, d + weight
            by_slope, by_intercept = by_slope + miss * x, by_intercept + miss
        size = a * d - b * b
        steps = (d * by_slope - b * by_intercept) / size, (a * by_intercept - b * by_slope) / size
        # Far from the optimum, a full Newton step can overshoot.
        part = min(1.0, 1.0 / max(math.hypot(*steps), _EDGE))
        slope, intercept = slope - part * steps[0], intercept - part * steps[1]
    # A judge with an AUROC below 0.5 is useless. A negative slope would make it look useful.
    raw = Calibration(slope=max(slope, 0.01), intercept=intercept)
    found = agreement([raw.apply(p) for p in probabilities], labels)
    return replace(raw, cut=found.cut, labels=len(labels), auroc=found.auroc)


def log_odds(probability: float, edge: float = _EDGE) -> float:
    bounded = min(1 - edge, max(edge, probability))
    return math.log(bounded / (1 - bounded))


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, value))))
