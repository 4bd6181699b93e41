"""Reads labels for a part of the samples, from people or from a better judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from rag_eval_hooks.datasets.data_rows import BadLine, json_lines
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results.estimate import LEAST_LABELS, Estimate, mean_of, predicted_mean
from rag_eval_hooks.results.read import NO_ROW, row_of
from rag_eval_hooks.results.summary import identity_of, scale_of_metric, weight_of

T = TypeVar("T")
Labels: TypeAlias = Mapping[tuple[str, str], float]
_DEFAULT: Final = "ragas.faithfulness"
_WANTS: Final = (
    '{"sample_id": "...", "metric": "ragas.faithfulness", "value": 0.5}, with "supported": true '
    "or false in place of metric and value, or a line of results"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledMean:
    """Mean of a metric in [0, 1], where 1 is best, estimated from labels of some samples."""

    metric: str
    labels: int  # samples with a label
    estimate: Estimate  # by labels and judge (prediction-powered)
    alone: Estimate  # by the labels without the judge
    judge: Estimate  # by the judge without labels


def read_labels(path: Path) -> Labels:
    """Read labels from a file of JSON lines.

    A line has a sample's id, a metric and a value on the metric's scale. A line may also be a
    result, for example from a better judge, which matches a sample by `question_id` or by question.
    Labels of single claims are skipped.

    Raises:
        ConfigError: A line is not a label.
    """
    labels: dict[tuple[str, str], float] = {}
    for found in lines_of(path, _labels_of, _WANTS):
        labels |= found
    return labels


def lines_of(path: Path, read: Callable[[Mapping[str, Any]], T], wants: str) -> Iterator[T]:
    """Apply `read` to the JSON of each non-blank line. A rejected line is a `ConfigError`."""
    for number, line in json_lines(Path(path), "replace"):
        try:
            if isinstance(line, BadLine):
                raise line
            yield read(line)
        except NO_ROW:
            raise ConfigError(f"labels: line {number}", str(line)[:60], wants) from None


def _labels_of(line: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    if "outcomes" in line:
        row = row_of(line)
        names = (row.sample.sample_id, identity_of(row))
        return {(name, k): score.normalized for name in names for k, score in row.scores.items()}
    if "claim" in line:
        return {}
    metric, value = line.get("metric", _DEFAULT), line.get("supported")
    if not isinstance(value, bool):
        scale = scale_of_metric(metric)
        value = line["value"] if scale is None else scale.score(line["value"]).normalized
    if not 0.0 <= value <= 1.0:
        raise ValueError
    return {(line["sample_id"], metric): float(value)}


def labelled_means(rows: Sequence[Evaluation], labels: Labels) -> list[LabelledMean]:
    """Return the mean of each metric with at least `LEAST_LABELS` labels.

    The labelled samples must be a random part of the scored samples.
    """
    found = (_labelled(metric, rows, labels) for metric in dict.fromkeys(m for _, m in labels))
    return [one for one in found if one is not None]


def _labelled(metric: str, rows: Sequence[Evaluation], labels: Labels) -> LabelledMean | None:
    judged, pairs = list[tuple[float, float]](), list[tuple[float, float, float]]()
    for row in rows:
        if (score := row.scores.get(metric)) is not None:
            names = ((row.sample.sample_id, metric), (identity_of(row), metric))
            label = next((labels[name] for name in names if name in labels), None)
            if label is None:
                judged.append((score.normalized, weight_of(score)))
            else:
                pairs.append((score.normalized, weight_of(score), label))
    if len(pairs) < LEAST_LABELS:
        return None
    values, weights = [value for value, _ in judged], [weight for _, weight in judged]
    beside, own, given = map(list, zip(*pairs, strict=True))
    estimate = predicted_mean(
        values, list(zip(given, beside, strict=True)), weights, label_weights=own
    )
    alone, judge = mean_of(given, own), mean_of(values + beside, weights + own)
    assert estimate is not None
    assert alone is not None
    assert judge is not None
    return LabelledMean(
        metric=metric, labels=len(pairs), estimate=estimate, alone=alone, judge=judge
    )
