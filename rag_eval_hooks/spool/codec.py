"""Samples and evaluations as text, and back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes, outcome_from_dict, outcome_to_dict

__all__ = [
    "StoredEvaluation",
    "evaluation_from_text",
    "evaluation_to_text",
    "sample_from_text",
    "sample_to_text",
]

_REDACTION: Final = "redaction_mark"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvaluation:
    """Part of an evaluation that the spool stores beside the sample.

    Attributes:
        outcomes: Outcome by metric id.
        start: Start of the evaluation in nanoseconds since the epoch.
        end: End of the evaluation in nanoseconds since the epoch.
    """

    outcomes: Outcomes
    start: int
    end: int


def sample_to_text(sample: Sample, redaction: str = "") -> str:
    """Return a sample as ASCII JSON; metadata that JSON does not know becomes its text.

    Args:
        sample: The sample to store.
        redaction: Mark of the redaction settings that were applied to it.

    Raises:
        ValueError: The metadata contains itself.
    """
    return json.dumps({_REDACTION: redaction, **sample.to_dict()}, default=str)


def sample_from_text(text: str) -> tuple[Sample, str]:
    """Return the sample, with its id, and the mark of the redaction that was applied to it.

    Raises:
        ValueError: The text is not JSON.
        TypeError: The text does not describe a sample.
    """
    data = json.loads(text)
    mark = data.pop(_REDACTION, "")
    return Sample.from_dict(data), mark


def evaluation_to_text(outcomes: Outcomes, start: int, end: int) -> str:
    """Return an evaluation as JSON, with the outcomes in their order.

    Raises:
        ValueError: An explanation contains itself.
    """
    plain = {name: outcome_to_dict(outcome) for name, outcome in outcomes.items()}
    return json.dumps({"start": start, "end": end, "outcomes": plain}, default=str)


def evaluation_from_text(text: str) -> StoredEvaluation:
    """Return the stored evaluation.

    Raises:
        ValueError: The text is not JSON, or an outcome is out of range.
        TypeError: The text does not describe an evaluation.
        KeyError: A field is missing.
        AttributeError: The text is JSON of another shape.
    """
    data = json.loads(text)
    outcomes = {name: outcome_from_dict(outcome) for name, outcome in data["outcomes"].items()}
    return StoredEvaluation(outcomes=outcomes, start=int(data["start"]), end=int(data["end"]))
