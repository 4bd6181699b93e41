"""`rag-eval-hooks calibrate`: compares a judge's probabilities with human labels."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from rag_eval_hooks.cli import UsageError
from rag_eval_hooks.judges.calibration import (
    LEAST_AUROC,
    LEAST_LABELS,
    Agreement,
    agreement,
    fitted,
)
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results import read
from rag_eval_hooks.results.labels import lines_of

ABOUT: Final = "Compares a judge's probabilities with human labels."
_Labels: TypeAlias = Mapping[tuple[str, str | None], bool]
_LINE: Final = '{"sample_id": ..., "supported": true}'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("results", metavar="RESULTS", help="a results file (JSON lines)")
    labels = f'human labels: JSON lines {_LINE}; add "claim" to label a single claim'
    add("labels", type=Path, metavar="LABELS", help=labels)
    add("--metric", default="ragas.faithfulness", metavar="ID")
    add("-o", "--output", type=Path, metavar="FILE", help="write a calibration")


def run(arguments: argparse.Namespace) -> int:
    metric, labels = arguments.metric, dict(lines_of(arguments.labels, _label, _LINE))
    rows = [row for row in read(arguments.results) if row.scores.get(metric) is not None]
    judged = [one for row in rows for one in _judged(row, metric, labels)]
    probabilities, truths = [one[0] for one in judged], [one[1] for one in judged]
    if len(judged) < LEAST_LABELS or len(set(truths)) < 2:
        raise UsageError(
            f"{arguments.labels}: Only {len(judged)} labels match a verdict with a probability. "
            f"Calibration needs at least {LEAST_LABELS}, with both true and false among them."
            f"{_stray(labels, arguments.results)}"
        )
    found = agreement(probabilities, truths)
    print(_text(found))
    if found.low < LEAST_AUROC:
        print(f"rejected: the AUROC may be below {LEAST_AUROC}, too low to calibrate this judge")
        return 1
    if arguments.output is not None:
        judge, version = _judge(rows, metric, arguments.results)
        replace(fitted(probabilities, truths), judge=judge, version=version).write(arguments.output)
        print(f"written: {arguments.output}")
    return 0


def _stray(labels: _Labels, path: str) -> str:
    """Return a sentence about labels with an unknown sample id, or empty text."""
    known = {row.sample.sample_id for row in read(path)}
    if not (stray := [name for name, _ in labels if name not in known]):
        return ""
    return (
        f" {len(stray)} labels match no sample, first {str(stray[0])[:40]!r}. A label needs the "
        f"sample_id of a line in {path}, not its question_id."
    )


def _judge(rows: Sequence[Evaluation], metric: str, path: str) -> tuple[str, str]:
    scores = [score for row in rows if (score := row.scores.get(metric)) is not None]
    made = {(score.annotator or "", score.version.partition("+")[2]) for score in scores}
    if len(made) > 1:
        names = ", ".join(sorted(" ".join(one) for one in made))
        raise UsageError(f"{path}: the scores come from several judges or versions: {names}.")
    return made.pop()


def _label(line: Mapping[str, Any]) -> tuple[tuple[str, str | None], bool]:
    if "outcomes" in line:
        raise UsageError("LABELS is a file of results. Write: calibrate RESULTS LABELS")
    if not isinstance(line["supported"], bool):
        raise TypeError
    return (line["sample_id"], line.get("claim")), line["supported"]


def _judged(row: Evaluation, metric: str, labels: _Labels) -> Iterator[tuple[float, bool]]:
    """Yield the probability and label of each labelled claim.

    A label for the whole sample applies to the least probable claim.
    """
    score, whole = row.scores.get(metric), labels.get((row.sample.sample_id, None))
    claims = [] if score is None else score.explanation.get("claims", [])
    known = [claim for claim in claims if claim.get("probability") is not None]
    for claim in known:
        if (label := labels.get((row.sample.sample_id, claim.get("claim")))) is not None:
            yield float(claim["probability"]), label
    if known and whole is not None:
        yield min(float(claim["probability"]) for claim in known), whole


def _text(found: Agreement) -> str:
    rows = {
        "labels": f"{found.labels}, {found.positive:.0%} supported",
        "AUROC": f"{found.auroc:.3f} [{found.low:.3f}, {found.high:.3f}]",
        "best cut": f"{found.cut:.3f}",
        "balanced accuracy": f"{found.balanced_accuracy:.3f}",
    }
    curve = [f"{mean:11.2f}  {share:9.2f}  {count:6}" for mean, share, count in found.curve]
    named = [f"{name:19}{text}" for name, text in rows.items()]
    return "\n".join([*named, "probability  supported  labels", *curve])
