"""`rag-eval-hooks calibrate`: compares a judge's probabilities with human labels."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from rag_eval_hooks.cli.arguments import UsageError
from rag_eval_hooks.judges.calibration import (
    LEAST_AUROC,
    LEAST_LABELS,
    Agreement,
    agreement,
    fitted,
)
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results import read
from rag_eval_hooks.results.read import lines_of

_Labels: TypeAlias = Mapping[tuple[str, str | None], bool]
_LINE: Final = '{"sample_id": ..., "supported": true}'


def run(arguments: argparse.Namespace) -> int:
    metric, labels = arguments.metric, dict(lines_of(arguments.labels, _label, _LINE))
    rows = [row for row in read(arguments.results) if metric in row.scores]
    judged = [one for row in rows for one in _judged(row, metric, labels)]
    probabilities, truths = [one[0] for one in judged], [one[1] for one in judged]
    if len(judged) < LEAST_LABELS or len(set(truths)) < 2:
        raise UsageError(
            f"{arguments.labels}: {len(judged)} labels match a claim in {arguments.results}. "
            f"Calibration needs at least {LEAST_LABELS} matching labels, some true and some false. "
            "A label needs the sample_id of a result, not a question_id."
        )
    found = agreement(probabilities, truths)
    print(_text(found))
    if found.low < LEAST_AUROC:
        told = f"the AUROC may be as low as {found.low:.3f} (95 % interval)"
        print(f"rejected: {told}, but calibration needs at least {LEAST_AUROC}")
        return 1
    if arguments.output is not None:
        scores = (row.scores[metric] for row in rows)
        judges = {f"{one.annotator} {one.version.partition('+')[2]}" for one in scores}
        if len(judges) > 1:
            told = f"the scores are from several judges or versions ({', '.join(sorted(judges))})"
            raise UsageError(f"{arguments.results}: {told}. Pass results of one judge version.")
        replace(fitted(probabilities, truths), judge=judges.pop()).write(arguments.output)
        print(f"written: {arguments.output}")
    return 0


def _label(line: Mapping[str, Any]) -> tuple[tuple[str, str | None], bool]:
    if "outcomes" in line:
        raise UsageError(
            "LABELS contains results instead of labels. Write: calibrate RESULTS LABELS"
        )
    if not isinstance(line["supported"], bool):
        raise TypeError
    return (line["sample_id"], line.get("claim")), line["supported"]


def _judged(row: Evaluation, metric: str, labels: _Labels) -> Iterator[tuple[float, bool]]:
    name, claims = row.sample.sample_id, row.scores[metric].explanation.get("claims", [])
    known = [claim for claim in claims if claim.get("probability") is not None]
    for claim in known:
        if (label := labels.get((name, claim.get("claim")))) is not None:
            yield float(claim["probability"]), label
    if known and (whole := labels.get((name, None))) is not None:
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
