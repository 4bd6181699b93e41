"""Evaluations and results files for tests that read results."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rag_eval_hooks import JsonlSink, NotScored, Outcome, Sample, Score
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.score import Cause

START = 1_700_000_000_000_000_000


def evaluation(
    sample: Sample, outcomes: Mapping[str, Outcome], *, start: int = START, **fields: Any
) -> Evaluation:
    values: dict[str, Any] = {"probability": None, "end": start + 1_000_000, **fields}
    return Evaluation(sample=sample, outcomes=outcomes, start=start, **values)


def write_results(path: Path, evaluations: Iterable[Evaluation], **options: Any) -> Path:
    sink = JsonlSink(path, **options)
    for one in evaluations:
        sink.deliver(one)
    return path


def row(outcomes: Mapping[str, Outcome], **fields: Any) -> Evaluation:
    return Evaluation(sample=Sample(question="q", metadata=fields), outcomes=outcomes)


def any_outcome(chance: random.Random) -> Outcome:
    probability = chance.choice([None, 1.0, round(chance.uniform(0.01, 1), 3)])
    if chance.random() < 0.25:
        return NotScored(chance.choice(list(Cause)), "a reason", probability=probability)
    value = chance.random()
    words = chance.choice(["plain", "umlaut ü", "字", "عربي", 'quo"te\n'])
    return Score(
        value=value,
        normalized=value,
        label=chance.choice([None, "CORRECT", words]),
        parts={"part": chance.random()} if chance.random() < 0.5 else {},
        explanation={"claims": [{"claim": words, "supported": chance.random() < 0.5}]},
        warnings=("short",) if chance.random() < 0.2 else (),
        annotator="heuristic",
        version="0.1.0+prompts.3",
        probability=probability,
        reason=chance.choice(["", "ratio", "rule:beta"]),
    )
